#include "control/json_rpc.h"

#include <utility>

namespace uzram::control {
namespace {

struct StatusName {
  Status status;
  std::string_view name;
};

constexpr StatusName kStatusNames[] = {
    {Status::ok, "ok"},
    {Status::invalid_argument, "invalid_argument"},
    {Status::out_of_range, "out_of_range"},
    {Status::no_space, "no_space"},
    {Status::no_memory, "no_memory"},
    {Status::io_error, "io_error"},
    {Status::not_supported, "not_supported"},
    {Status::read_only, "read_only"},
    {Status::would_block, "would_block"},
    {Status::busy, "busy"},
    {Status::exists, "exists"},
    {Status::not_found, "not_found"},
    {Status::no_device, "no_device"},
    {Status::permission, "permission"},
    {Status::shutting_down, "shutting_down"},
};

Status status_of_name(std::string_view name) noexcept {
  for (const StatusName& row : kStatusNames) {
    // An error that says "ok" is one all the same.
    if (row.name == name && row.status != Status::ok) return row.status;
  }
  return Status::io_error;
}

tl::unexpected<RpcError> refuse(int code, std::string message) {
  return tl::unexpected(RpcError{code, {Status::invalid_argument, std::move(message)}});
}

// The string member `key`, empty where there is none of that type.
std::string string_member(const nlohmann::json& object, const char* key) {
  const auto member = object.find(key);
  if (member == object.end() || !member->is_string()) return "";
  return member->get<std::string>();
}

}  // namespace

tl::expected<RpcRequest, RpcError> parse_request(std::string_view line, nlohmann::json& id) {
  id = nullptr;
  if (line.size() > kLineBytesMax) {
    return refuse(kInvalidRequest, "request: longer than " + std::to_string(kLineBytesMax));
  }
  auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded()) return refuse(kParseError, "request: not JSON");
  if (json.is_array()) return refuse(kInvalidRequest, "request: batches are not served");
  if (!json.is_object()) return refuse(kInvalidRequest, "request: not an object");

  RpcRequest request;
  const auto given_id = json.find("id");
  request.notification = given_id == json.end();
  if (given_id != json.end()) {
    if (!given_id->is_string() && !given_id->is_number() && !given_id->is_null()) {
      return refuse(kInvalidRequest, "id: neither a string nor a number");
    }
    id = *given_id;
    request.id = *given_id;
  }
  if (string_member(json, "jsonrpc") != "2.0")
    return refuse(kInvalidRequest, "jsonrpc: not \"2.0\"");
  request.method = string_member(json, "method");
  if (request.method.empty()) return refuse(kInvalidRequest, "method: not a name");
  const auto params = json.find("params");
  if (params != json.end()) {
    if (!params->is_object()) return refuse(kInvalidParams, "params: not an object");
    request.params = std::move(*params);
  }
  return request;
}

nlohmann::json make_request(std::int64_t id, std::string_view method, nlohmann::json params) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}

nlohmann::json make_reply(const nlohmann::json& id, nlohmann::json result) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

nlohmann::json make_error(const nlohmann::json& id, const RpcError& error) {
  return {{"jsonrpc", "2.0"},
          {"id", id},
          {"error",
           {{"code", error.code},
            {"message", error.error.message},
            {"data", {{"status", status_name(error.error.status)}}}}}};
}

RpcError rpc_error(Error error) {
  const int code = error.status == Status::invalid_argument ? kInvalidParams : kServerError;
  return {code, std::move(error)};
}

Result<nlohmann::json> parse_reply(std::string_view line) {
  auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return fail(Status::io_error, "reply: not a JSON object");
  const auto error = json.find("error");
  if (error != json.end()) {
    if (!error->is_object()) return fail(Status::io_error, "reply: error is not an object");
    const auto data = error->find("data");
    const bool has_data = data != error->end() && data->is_object();
    return fail(has_data ? status_of_name(string_member(*data, "status")) : Status::io_error,
                string_member(*error, "message"));
  }
  const auto result = json.find("result");
  if (result == json.end()) return fail(Status::io_error, "reply: neither result nor error");
  return std::move(*result);
}

std::string_view status_name(Status status) noexcept {
  for (const StatusName& row : kStatusNames) {
    if (row.status == status) return row.name;
  }
  return "io_error";
}

}  // namespace uzram::control
