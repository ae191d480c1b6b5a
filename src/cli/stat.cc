#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "control/attributes.h"
#include "control/device_record.h"

namespace uzram::cli {
namespace {

using Json = nlohmann::json;

// `over` / `under` with two decimals, "-" where there is nothing to divide by.
std::string ratio(std::uint64_t over, std::uint64_t under) {
  if (under == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(over) / static_cast<double>(under));
  return text;
}

// The heading that zramctl prints, then every counter with what it means.
std::string as_tables(const Json& stat, const control::DeviceRecord& record) {
  const auto counter = [&stat](const char* name) { return stat.at(name).get<std::uint64_t>(); };
  const std::uint64_t data = counter("orig_data_size");
  const std::uint64_t total = counter("mem_used_total");
  const std::uint64_t limit = counter("mem_limit");
  std::string text = format_table(
      {{"NAME", "TYPE", "ALGORITHM", "DISKSIZE", "DATA", "COMPR", "TOTAL", "RATIO", "LIMIT", "PEAK",
        "CLIENTS"},
       {record.name, record.type, record.algo, base::format_size(record.size_bytes),
        base::format_size(data), base::format_size(counter("compr_data_size")),
        base::format_size(total), ratio(data, total), limit == 0 ? "-" : base::format_size(limit),
        base::format_size(counter("mem_used_max")), std::to_string(counter("clients"))}});
  text +=
      "\nDISKSIZE bounds what can be stored, LIMIT the memory that it may take (TOTAL);\n"
      "past either a write fails with ENOSPC. RATIO is DATA / TOTAL.\n\n";
  std::vector<TableRow> rows = {{"COUNTER", "VALUE", "UNIT", "MEANING"}};
  for (const control::Attribute& attribute : control::attributes()) {
    if (attribute.counter == nullptr) continue;
    const std::string name(attribute.name);
    rows.push_back({name, std::to_string(counter(name.c_str())), std::string(attribute.unit),
                    std::string(attribute.help)});
  }
  text += format_table(rows);
  if (!record.backing.empty()) {
    text += "\n" + format_table({{"BACKING STORE", "SIZE", "USED"},
                                 {record.backing, base::format_size(record.backing_size_bytes),
                                  base::format_size(counter("bd_count") * kPageBytes)}});
  }
  if (record.attachments.empty()) return text;
  std::vector<TableRow> attachments = {{"ATTACHMENT", "WHERE"}};
  for (const control::AttachmentRecord& attachment : record.attachments) {
    attachments.push_back({attachment.kind, attachment.where});
  }
  return text + "\n" + format_table(attachments);
}

Result<std::string> stat(const std::string& name, bool json) {
  const auto reply = call_device(name, "device.stat", Json::object());
  if (!reply) return tl::unexpected(reply.error());
  if (json) return control::dump_line(*reply) + "\n";
  const auto record = control::record_of_json(*reply);
  if (!record) return tl::unexpected(record.error());
  try {
    return as_tables(*reply, *record);
  } catch (const Json::exception& error) {
    return fail(Status::io_error, std::string("device.stat: ") + error.what());
  }
}

}  // namespace

int run_stat(const StatArguments& arguments) {
  const auto text = stat(arguments.name, arguments.json);
  return text ? finish(*text) : report(text.error());
}

}  // namespace uzram::cli
