#include <string>
#include <string_view>

#include "cli/manual.h"
#include "control/attributes.h"

namespace uzram::cli {
namespace {

constexpr std::string_view kHead = R"(.TH UZRAM-ATTRIBUTES 7 "" "uzram" "uzram manual"
.SH NAME
uzram-attributes \- settings and counters of uzram devices
.SH SYNOPSIS
.nf
.B uzram get \fINAME\fB \fIATTR\fB
.B uzram set \fINAME\fB \fIATTR\fB \fIVALUE\fB
.B uzram sysfs \fIMOUNTPOINT\fB
.fi
.SH DESCRIPTION
A device of
.BR uzram (1)
is new until it is given a size, by
.B uzram start \-\-size
or by writing
.BR disksize .
Then it runs, until
.B reset
makes it new again.
Some attributes can be written only before, others only after.
.PP
Names and formats are those of the Linux kernel's zram driver where that has the attribute;
those stand in the tree of
.B uzram sysfs
too, under
.BI block/ NAME / ATTR\fR.
Sizes take one of the suffixes K, M, G and T, powers of 1024.
.SH ATTRIBUTES
)";

constexpr std::string_view kTail = R"(.SH ERRORS
As text on standard error from
.B uzram get
and
.BR "uzram set" ,
as an error of
.BR read (2)
and
.BR write (2)
in the tree.
.TP
.B EINVAL
The value does not parse, or the attribute needs a device that has a size.
.TP
.B ERANGE
A page that the device does not have.
.TP
.B EBUSY
The device or what is named is in use, or the device has a size and the attribute is fixed from
then on.
.TP
.B EAGAIN
A pass over all pages is under way; two never run at once.
.TP
.B ENOMEM\fR, \fBENOSPC
The system, what the device is attached by, or the backing store has no room for it.
.TP
.B ENODEV
The device has gone, or it has no backing store.
.TP
.B EIO
The device's process does not answer, the backing store failed, or
.B writeback_limit
is used up.
.SH SEE ALSO
.BR uzram (1),
.BR zramctl (8)
)";

std::string_view when_text(control::When when) {
  switch (when) {
    case control::When::before_size:
      return "Can be written while the device has no size.";
    case control::When::with_size:
      return "Can be written while the device has a size.";
    case control::When::always:
      return "";
  }
  return "";
}

std::string entry(const control::Attribute& attribute) {
  std::string text = ".TP\n.B " + escaped(attribute.name) + "\n(" + std::string(attribute.access());
  if (!attribute.unit.empty()) text += ", " + std::string(attribute.unit);
  text += ")\n\\&" + escaped(attribute.help) + ".\n";
  if (const auto when = when_text(attribute.when); !when.empty()) {
    text += std::string(when) + "\n";
  }
  if (!attribute.kernel) text += "Not an attribute of the kernel's.\n";
  return text;
}

}  // namespace

std::string attributes_page() {
  std::string page(kHead);
  for (const control::Attribute& attribute : control::attributes()) page += entry(attribute);
  return page += kTail;
}

}  // namespace uzram::cli
