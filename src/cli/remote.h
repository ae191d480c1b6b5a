// A device as the subcommands reach it.
//
// What: checks the name, finds the runtime directory and connects; one call in most cases.
// Units: none. Ownership: values. Threading: the main thread. Errors: one line, ready for `report`.
#ifndef UZRAM_CLI_REMOTE_H_
#define UZRAM_CLI_REMOTE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "control/client.h"
#include "control/runtime_dir.h"
#include "uzram/result.h"

namespace uzram::cli {

// The runtime directory that may hold the device; a missing one holds none.
Result<control::RuntimeDir> find_device_dir(const std::string& name);
// Connects, calls once, and closes.
Result<nlohmann::json> call_device(const std::string& name, std::string_view method,
                                   const nlohmann::json& params);
}  // namespace uzram::cli

#endif  // UZRAM_CLI_REMOTE_H_
