// The methods of the control socket.
//
// What: device.info, device.stat, device.get {name, from?}, device.set {name, value}, device.reset
//   {force?}, device.attach {kind, argument?}, device.detach {kind, force?}, device.stop {force?}.
//   Parameters are named; one that a method doesn't know is refused. device.get answers a string;
//   where the attribute is read in parts, {text, next}: next is the `from` of the following part,
//   null with the last.
// Units: as in the attribute table. Ownership: none. Threading: as Host.
// Errors: in the reply; nothing is thrown, whatever the line holds.
#ifndef UZRAM_CONTROL_METHODS_H_
#define UZRAM_CONTROL_METHODS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "control/attributes.h"
#include "control/host.h"

namespace uzram::control {

// The reply to one line, without its newline; empty where none is due.
std::string answer(Host& host, std::string_view line);
// What device.get answered, as text of whole lines; a value that is read whole is the only part.
Result<Part> part_of_answer(const nlohmann::json& answer);
// Whether the answer to that call may take minutes.
bool takes_long(std::string_view method, const nlohmann::json& params);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_METHODS_H_
