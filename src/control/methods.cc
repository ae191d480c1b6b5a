#include "control/methods.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "control/attributes.h"
#include "control/json_rpc.h"

namespace uzram::control {
namespace {

using Json = nlohmann::json;
using Answer = Result<Json>;

Result<std::string> string_param(const Json& params, const char* name) {
  const auto found = params.find(name);
  if (found == params.end()) {
    return fail(Status::invalid_argument, std::string(name) + ": is missing");
  }
  if (!found->is_string()) {
    return fail(Status::invalid_argument, std::string(name) + ": is not a string");
  }
  return found->get<std::string>();
}

Result<bool> force_param(const Json& params) {
  const auto found = params.find("force");
  if (found == params.end()) return false;
  if (!found->is_boolean())
    return fail(Status::invalid_argument, "force: is neither true nor false");
  return found->get<bool>();
}

// "done" for acts that have nothing more to say.
Answer done(const Result<void>& result) {
  if (!result) return tl::unexpected(result.error());
  return Json(true);
}

Answer device_info(Host& host, const Json&) {
  const DeviceRecord record = host.record();
  Json info = to_json(record);
  info["state"] = state_of(record);
  info["clients"] = host.clients();
  return info;
}

Answer device_stat(Host& host, const Json& params) {
  auto stat = device_info(host, params);
  if (!stat) return stat;
  const Stats stats = view_of(host).stats;
  for (const Attribute& attribute : attributes()) {
    if (attribute.counter != nullptr)
      (*stat)[std::string(attribute.name)] = stats.*attribute.counter;
  }
  return stat;
}

Answer get_part(Host& host, const Attribute& attribute, const Json& params) {
  const auto from = params.find("from");
  if (from != params.end() && !from->is_number_unsigned()) {
    return fail(Status::invalid_argument, "from: is not a whole number");
  }
  Part part =
      read_attribute_part(host, attribute, from == params.end() ? 0 : from->get<std::uint64_t>());
  return Json{{"text", std::move(part.text)}, {"next", part.next ? Json(*part.next) : Json()}};
}

Answer device_get(Host& host, const Json& params) {
  const auto name = string_param(params, "name");
  if (!name) return tl::unexpected(name.error());
  const Attribute* attribute = find_attribute(*name);
  if (attribute != nullptr && attribute->in_parts()) return get_part(host, *attribute, params);
  if (params.contains("from")) {
    return fail(Status::invalid_argument, "from: " + *name + " is read whole");
  }
  auto value = read_attribute(host, *name);
  if (!value) return tl::unexpected(value.error());
  return Json(std::move(*value));
}

Answer device_set(Host& host, const Json& params) {
  const auto name = string_param(params, "name");
  if (!name) return tl::unexpected(name.error());
  const auto value = string_param(params, "value");
  if (!value) return tl::unexpected(value.error());
  return done(write_attribute(host, *name, *value));
}

Answer device_reset(Host& host, const Json& params) {
  const auto force = force_param(params);
  if (!force) return tl::unexpected(force.error());
  return done(host.reset(*force));
}

Answer device_attach(Host& host, const Json& params) {
  const auto kind = string_param(params, "kind");
  if (!kind) return tl::unexpected(kind.error());
  Result<std::string> argument = std::string();
  if (params.contains("argument")) argument = string_param(params, "argument");
  if (!argument) return tl::unexpected(argument.error());
  const auto attached = host.attach(*kind, *argument);
  if (!attached) return tl::unexpected(attached.error());
  return Json{{"kind", attached->kind}, {"where", attached->where}};
}

Answer device_detach(Host& host, const Json& params) {
  const auto kind = string_param(params, "kind");
  if (!kind) return tl::unexpected(kind.error());
  const auto force = force_param(params);
  if (!force) return tl::unexpected(force.error());
  return done(host.detach(*kind, *force));
}

Answer device_stop(Host& host, const Json& params) {
  const auto force = force_param(params);
  if (!force) return tl::unexpected(force.error());
  return done(host.stop(*force));
}

struct Method {
  std::string_view name;
  std::vector<std::string_view> params;
  Answer (*run)(Host& host, const Json& params);
};

const Method kMethods[] = {
    {"device.info", {}, device_info},
    {"device.stat", {}, device_stat},
    {"device.get", {"name", "from"}, device_get},
    {"device.set", {"name", "value"}, device_set},
    {"device.reset", {"force"}, device_reset},
    {"device.attach", {"kind", "argument"}, device_attach},
    {"device.detach", {"kind", "force"}, device_detach},
    {"device.stop", {"force"}, device_stop},
};

tl::expected<Json, RpcError> run(Host& host, const RpcRequest& request) {
  const Method* method =
      std::find_if(std::begin(kMethods), std::end(kMethods),
                   [&](const Method& row) { return row.name == request.method; });
  if (method == std::end(kMethods)) {
    return tl::unexpected(RpcError{
        kMethodNotFound, {Status::not_supported, "'" + request.method + "': no such method"}});
  }
  for (const auto& [key, value] : request.params.items()) {
    if (std::find(method->params.begin(), method->params.end(), key) == method->params.end()) {
      return tl::unexpected(
          RpcError{kInvalidParams, {Status::invalid_argument, "'" + key + "': no such parameter"}});
    }
  }
  auto result = method->run(host, request.params);
  if (!result) return tl::unexpected(rpc_error(std::move(result.error())));
  return std::move(*result);
}

}  // namespace

bool takes_long(std::string_view method, const Json& params) {
  if (method != "device.set") return false;
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string()) return false;
  const Attribute* attribute = find_attribute(name->get_ref<const std::string&>());
  return attribute != nullptr && attribute->takes_long;
}

Result<Part> part_of_answer(const Json& answer) {
  if (answer.is_string()) return Part{answer.get<std::string>() + "\n"};
  const auto text = answer.find("text"), next = answer.find("next");
  if (text == answer.end() || !text->is_string() || next == answer.end() ||
      !(next->is_null() || next->is_number_unsigned())) {
    return fail(Status::io_error, "device.get: neither a value nor a part of one");
  }
  Part part{text->get<std::string>()};
  if (!next->is_null()) part.next = next->get<std::uint64_t>();
  return part;
}

std::string answer(Host& host, std::string_view line) {
  Json id;
  try {
    const auto request = parse_request(line, id);
    if (!request) return dump_line(make_error(id, request.error()));
    auto result = run(host, *request);
    if (request->notification) return "";
    if (!result) return dump_line(make_error(id, result.error()));
    return dump_line(make_reply(id, std::move(*result)));
  } catch (const std::exception& error) {
    // The JSON library throws where memory ends.
    return dump_line(make_error(id, rpc_error({Status::no_memory, error.what()})));
  }
}

}  // namespace uzram::control
