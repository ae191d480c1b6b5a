#include "control/sysfs_tree.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "control/client.h"
#include "control/methods.h"

namespace uzram::control {
namespace {

using Json = nlohmann::json;
using Kind = SysfsTree::Kind;

constexpr const char* kHotDevices = "zram";

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (end > 0) parts.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

tl::unexpected<Error> not_in_tree() {
  return fail(Status::not_found, "no such file in the tree");
}

const BlockFile* find_file(std::span<const BlockFile> files, std::string_view name,
                           const DeviceRecord& record) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [name](const BlockFile& file) { return file.name == name; });
  if (found == files.end()) return nullptr;
  return found->of_record != nullptr && found->of_record(record).empty() ? nullptr : &*found;
}

void list_files(std::span<const BlockFile> files, const DeviceRecord& record,
                std::vector<std::string>& names) {
  for (const BlockFile& file : files) {
    if (find_file(files, file.name, record) != nullptr) names.emplace_back(file.name);
  }
}

Result<Json> call(const RuntimeDir& dir, const std::string& device,
                  std::chrono::milliseconds patience, std::string_view method, const Json& params) {
  auto client = Client::connect(dir, device, patience);
  if (!client && client.error().status == Status::not_found) {
    client.error().status = Status::no_device;
  }
  if (!client) return tl::unexpected(client.error());
  return client->call(method, params);
}

}  // namespace

bool SysfsTree::Node::readable() const noexcept {
  if (kind == Kind::attribute) return attribute->readable();
  return kind != Kind::hot_remove;
}

bool SysfsTree::Node::writable() const noexcept {
  return kind == Kind::hot_remove || (kind == Kind::attribute && attribute->writable());
}

std::optional<DeviceRecord> SysfsTree::living(const std::string& name) const {
  if (!check_name(name) || dir_.lock_state(name) != LockState::held || !dir_.has_socket(name)) {
    return std::nullopt;
  }
  const auto record = read_record(dir_.files(name).record);
  if (!record) return std::nullopt;
  return *record;
}

Result<SysfsTree::Node> SysfsTree::look_up(std::string_view path) const {
  const std::vector<std::string> parts = split(path);
  if (parts.empty()) return Node{};
  const bool top = parts.size() == 1;
  if (parts[0] == "class") {
    if (top || (parts.size() == 2 && parts[1] == "zram-control")) return Node{};
    if (parts.size() != 3 || parts[1] != "zram-control") return not_in_tree();
    if (parts[2] == "hot_add") return Node{Kind::hot_add};
    if (parts[2] == "hot_remove") return Node{Kind::hot_remove};
    return not_in_tree();
  }
  if (parts[0] != "block" && parts[0] != "dev") return not_in_tree();
  return top ? Node{} : look_up_device(parts);
}

Result<SysfsTree::Node> SysfsTree::look_up_device(const std::vector<std::string>& parts) const {
  const std::string& name = parts[1];
  const auto record = living(name);
  if (!record) return not_in_tree();
  if (parts[0] == "dev") {
    if (parts.size() == 2 && !device_path(*record).empty()) return Node{Kind::link, name};
    return not_in_tree();
  }
  if (parts.size() == 2) return Node{Kind::directory, name};
  if (parts.size() == 3 && parts[2] == "queue") return Node{Kind::directory, name};
  const BlockFile* file = nullptr;
  if (parts.size() == 3) {
    const Attribute* attribute = find_attribute(parts[2]);
    if (attribute != nullptr && attribute->kernel) return Node{Kind::attribute, name, attribute};
    file = find_file(block_files(), parts[2], *record);
  } else if (parts.size() == 4 && parts[2] == "queue") {
    file = find_file(queue_files(), parts[3], *record);
  }
  if (file == nullptr) return not_in_tree();
  return Node{Kind::block_file, name, nullptr, file};
}

Result<std::vector<std::string>> SysfsTree::list(std::string_view path) const {
  const auto node = look_up(path);
  if (!node) return tl::unexpected(node.error());
  const std::vector<std::string> parts = split(path);
  std::vector<std::string> names;
  if (parts.empty()) return std::vector<std::string>{"block", "class", "dev"};
  if (parts[0] == "class") {
    if (parts.size() == 1) return std::vector<std::string>{"zram-control"};
    return std::vector<std::string>{"hot_add", "hot_remove"};
  }
  if (parts.size() == 1) {
    const auto devices = dir_.names();
    if (!devices) return tl::unexpected(devices.error());
    for (const std::string& name : *devices) {
      const auto record = living(name);
      if (record && (parts[0] == "block" || !device_path(*record).empty())) names.push_back(name);
    }
    return names;
  }
  const auto record = living(parts[1]);
  if (!record) return not_in_tree();
  if (parts.size() == 3) {
    list_files(queue_files(), *record, names);
    return names;
  }
  for (const Attribute& attribute : attributes()) {
    if (attribute.kernel) names.emplace_back(attribute.name);
  }
  list_files(block_files(), *record, names);
  names.emplace_back("queue");
  return names;
}

Result<std::string> SysfsTree::link_target(const Node& link) const {
  const auto record = living(link.device);
  if (!record || link.kind != Kind::link) return not_in_tree();
  return device_path(*record);
}

Result<Part> SysfsTree::read(const Node& file, std::uint64_t from) const {
  if (file.kind == Kind::attribute) return read_attribute_of(file, from);
  Result<std::string> text = not_in_tree();
  if (file.kind == Kind::hot_add) text = hot_add();
  if (file.kind == Kind::block_file) text = read_block_file(file);
  if (!text) return tl::unexpected(text.error());
  return Part{std::move(*text) + "\n"};
}

Result<Part> SysfsTree::read_attribute_of(const Node& file, std::uint64_t from) const {
  Json params = {{"name", file.attribute->name}};
  if (from != 0) params["from"] = from;
  const auto value = call(dir_, file.device, kReadPatience, "device.get", params);
  if (!value) return tl::unexpected(value.error());
  auto part = part_of_answer(*value);
  if (part && part->next && *part->next <= from) {
    return fail(Status::io_error, "device.get: does not go on");
  }
  return part;
}

Result<std::string> SysfsTree::read_block_file(const Node& file) const {
  if (file.block_file->of_record != nullptr) {
    const auto record = living(file.device);
    if (!record) return fail(Status::no_device, "'" + file.device + "': has gone");
    return file.block_file->of_record(*record);
  }
  const auto stat = call(dir_, file.device, kReadPatience, "device.stat", Json::object());
  if (!stat) return tl::unexpected(stat.error());
  try {
    return file.block_file->of_stat(*stat);
  } catch (const Json::exception& error) {
    return fail(Status::io_error, std::string("device.stat: ") + error.what());
  }
}

Result<void> SysfsTree::write(const Node& file, std::string_view text) const {
  if (text.size() > kWriteBytesMax) {
    return fail(Status::invalid_argument, "value: longer than " + std::to_string(kWriteBytesMax));
  }
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (file.kind == Kind::hot_remove) return hot_remove(text);
  if (file.kind != Kind::attribute) return not_in_tree();
  const auto done = call(dir_, file.device, kWritePatience, "device.set",
                         {{"name", file.attribute->name}, {"value", text}});
  if (!done) return tl::unexpected(done.error());
  return {};
}

// A dead device's number is not free: what it left is still to be cleared.
Result<std::string> SysfsTree::hot_add() const {
  for (int number = 0; number < std::numeric_limits<int>::max(); ++number) {
    const std::string name = kHotDevices + std::to_string(number);
    if (dir_.has_files(name)) continue;
    const auto started = start_(name);
    if (started) return std::to_string(number);
    // Another has taken the name meanwhile.
    if (started.error().status != Status::exists) return tl::unexpected(started.error());
  }
  return fail(Status::no_space, "no number is free");
}

Result<void> SysfsTree::hot_remove(std::string_view text) const {
  const auto number = base::parse_count(text, std::numeric_limits<int>::max());
  if (!number) return tl::unexpected(number.error());
  const std::string name = kHotDevices + std::to_string(*number);
  if (!dir_.has_files(name)) return fail(Status::no_device, "'" + name + "': no such device");
  if (living(name)) {
    const auto info = call(dir_, name, kReadPatience, "device.info", Json::object());
    if (!info) return tl::unexpected(info.error());
    // To stop a device disconnects those who came over a socket: here they keep it.
    if (info->value("clients", 0U) != 0) return fail(Status::busy, "'" + name + "': in use");
  }
  auto stopped = stop_(name);
  if (!stopped && stopped.error().status == Status::not_found) {
    stopped.error().status = Status::no_device;
  }
  return stopped;
}

}  // namespace uzram::control
