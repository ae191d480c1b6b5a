// JSON-RPC 2.0, the part that is spoken on the control socket.
//
// What: one request or reply per line. Batches are refused. An error carries the code of the
//   specification and, in `data.status`, the name of our Status.
// Units: bytes. Ownership: values. Threading: pure.
// Errors: `parse_request` never throws, whatever the bytes; the Error's status tells the code.
#ifndef UZRAM_CONTROL_JSON_RPC_H_
#define UZRAM_CONTROL_JSON_RPC_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "uzram/result.h"

namespace uzram::control {

// The longest line that either side accepts, without its newline.
inline constexpr std::size_t kLineBytesMax = 64 << 10;

inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kServerError = -32000;

struct RpcError {
  int code = kServerError;
  Error error;
};

struct RpcRequest {
  nlohmann::json id;          // string, number or null
  bool notification = false;  // wants no reply
  std::string method;
  nlohmann::json params = nlohmann::json::object();  // always an object
};

// As a reply to it must carry the id, `id` is set even where the request is refused.
tl::expected<RpcRequest, RpcError> parse_request(std::string_view line, nlohmann::json& id);

nlohmann::json make_request(std::int64_t id, std::string_view method, nlohmann::json params);
nlohmann::json make_reply(const nlohmann::json& id, nlohmann::json result);
nlohmann::json make_error(const nlohmann::json& id, const RpcError& error);

// The code for an act that failed: invalid_argument is the caller's, all else the server's.
RpcError rpc_error(Error error);
// The result of a reply, or the error in it.
Result<nlohmann::json> parse_reply(std::string_view line);

// The name of a Status as in result.h: "busy".
std::string_view status_name(Status status) noexcept;

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_JSON_RPC_H_
