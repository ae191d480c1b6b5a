// A backing store as people choose one, by the attribute or by an option of `start`.
//
// What: opens it when it is chosen, so that its errors and its lock show at once.
// Units: none. Ownership: as uzram/backing.h. Threading: any thread; waits for disk or server.
// Errors: as open_backing_store.
#ifndef UZRAM_CONTROL_BACKING_SETTING_H_
#define UZRAM_CONTROL_BACKING_SETTING_H_

#include <memory>
#include <string>

#include "uzram/backing.h"
#include "uzram/result.h"

namespace uzram::control {

// open_backing_store, but for a store that a reset has just given up: that is waited for.
Result<std::shared_ptr<backing::Store>> open_backing(const std::string& where);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_BACKING_SETTING_H_
