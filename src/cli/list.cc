#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "control/device_record.h"
#include "control/runtime_dir.h"

namespace uzram::cli {
namespace {

struct Listed {
  std::string state;  // "running", "new", "starting" or "dead"
  control::DeviceRecord record;
};

// Nothing where the device went away while we looked.
std::optional<Listed> look_at(const control::RuntimeDir& dir, const std::string& name) {
  Listed listed;
  const auto record = control::read_record(dir.files(name).record);
  if (record) {
    listed.record = *record;
  } else {
    listed.record.type = "-";
    listed.record.algo = "-";
  }
  listed.record.name = name;
  if (dir.lock_state(name) == control::LockState::held) {
    listed.state = "starting";
    if (record && dir.has_socket(name)) listed.state = control::state_of(*record);
  } else {
    listed.state = "dead";
    if (!dir.has_files(name)) return std::nullopt;
  }
  return listed;
}

Result<std::vector<Listed>> look_at_all() {
  std::vector<Listed> devices;
  const auto dir = control::RuntimeDir::open();
  if (!dir) {
    if (dir.error().status == Status::not_found) return devices;
    return tl::unexpected(dir.error());
  }
  const auto names = dir->names();
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name : *names) {
    if (auto listed = look_at(*dir, name)) devices.push_back(std::move(*listed));
  }
  return devices;
}

std::string as_json(const std::vector<Listed>& devices) {
  nlohmann::json array = nlohmann::json::array();
  for (const Listed& listed : devices) {
    array.push_back(control::to_json(listed.record));
    array.back()["state"] = listed.state;
  }
  return control::dump_line(array) + "\n";
}

std::string as_table(const std::vector<Listed>& devices) {
  std::vector<TableRow> rows = {{"NAME", "PID", "STATE", "TYPE", "ALGO", "SIZE", "ATTACHMENTS"}};
  for (const auto& [state, record] : devices) {
    std::string attachments;
    for (const control::AttachmentRecord& attachment : record.attachments) {
      attachments += (attachments.empty() ? "" : " ") + attachment.where;
    }
    rows.push_back({record.name, record.pid == 0 ? "-" : std::to_string(record.pid), state,
                    record.type, record.algo,
                    record.size_bytes == 0 ? "-" : base::format_size(record.size_bytes),
                    attachments.empty() ? "-" : attachments});
  }
  return format_table(rows);
}

}  // namespace

int run_list(const ListArguments& arguments) {
  const auto devices = look_at_all();
  if (!devices) return report(devices.error());
  return finish(arguments.json ? as_json(*devices) : as_table(*devices));
}

}  // namespace uzram::cli
