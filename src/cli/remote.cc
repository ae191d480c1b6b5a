#include "cli/remote.h"

#include <nlohmann/json.hpp>

namespace uzram::cli {

Result<control::RuntimeDir> find_device_dir(const std::string& name) {
  if (auto checked = control::check_name(name); !checked) return tl::unexpected(checked.error());
  auto dir = control::RuntimeDir::open();
  if (!dir && dir.error().status == Status::not_found) {
    return fail(Status::not_found, "'" + name + "': no such device");
  }
  return dir;
}

Result<nlohmann::json> call_device(const std::string& name, std::string_view method,
                                   const nlohmann::json& params) {
  const auto dir = find_device_dir(name);
  if (!dir) return tl::unexpected(dir.error());
  auto client = control::Client::connect(*dir, name);
  if (!client) return tl::unexpected(client.error());
  return client->call(method, params);
}

}  // namespace uzram::cli
