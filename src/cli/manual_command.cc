#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/manual.h"

namespace uzram::cli {
namespace {

constexpr std::string_view kHead = R"(.TH UZRAM 1 "" "uzram" "uzram manual"
.SH NAME
uzram \- compressed RAM disks in user space
.SH SYNOPSIS
.nf
)";

constexpr std::string_view kTail = R"(.SH SEE ALSO
.BR uzram\-attributes (7),
.BR zramctl (8),
.BR nbd\-client (8)
)";

bool is_positional(const CLI::Option& option) {
  return option.get_positional() && !option.nonpositional();
}

// As in a synopsis: NAME, [AGE], [WORD...].
std::string place(const CLI::Option& option) {
  const std::string name = option.get_name(true) + (option.get_expected_max() > 1 ? "..." : "");
  return option.get_required() ? name : "[" + name + "]";
}

// What `--help` heads the command with.
std::string usage(const CLI::App& command) {
  std::string options, places;
  for (const CLI::Option* option : command.get_options()) {
    if (is_positional(*option)) {
      places += " \\fI" + escaped(place(*option)) + "\\fR";
    } else if (option != command.get_help_ptr()) {
      options = " [\\fIOPTIONS\\fR]";
    }
  }
  return "\\fBuzram " + escaped(command.get_name()) + "\\fR" + options + places;
}

std::string entry(const CLI::Option& option) {
  std::string head = "\\fI" + escaped(option.get_name(true)) + "\\fR";
  if (!is_positional(option)) {
    head = "\\fB" + escaped(option.get_name(false, true)) + "\\fR";
    const std::string type = option.get_type_name();
    if (!type.empty()) head += " \\fI" + escaped(type) + "\\fR";
  }
  return ".TP\n" + head + "\n\\&" + escaped(option.get_description()) + ".\n";
}

std::string section(const CLI::App& command) {
  std::string text = ".SS " + usage(command) + "\n\\&" + escaped(command.get_description()) + ".\n";
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : command.get_options()) {
      if (is_positional(*option) != positional || option == command.get_help_ptr()) continue;
      text += entry(*option);
    }
  }
  return text;
}

}  // namespace

std::string command_page() {
  int exit_code = 0;
  const std::unique_ptr<const CLI::App> app = make_app(exit_code);
  const std::vector<const CLI::App*> commands =
      app->get_subcommands([](const CLI::App*) { return true; });
  std::string page(kHead);
  for (const CLI::App* command : commands) page += usage(*command) + "\n";
  page += ".fi\n.SH DESCRIPTION\n\\&" + escaped(app->get_description()) + "\n.PP\n\\&" +
          escaped(app->get_footer()) + "\n.SH OPTIONS\n";
  for (const CLI::Option* option : app->get_options()) page += entry(*option);
  page += ".SH COMMANDS\n";
  for (const CLI::App* command : commands) page += section(*command);
  return page += kTail;
}

}  // namespace uzram::cli
