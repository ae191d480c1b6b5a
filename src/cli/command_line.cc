#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "codec/codec.h"
#include "control/attributes.h"

namespace uzram::cli {
namespace {

constexpr const char* kForceHelp =
    "Also where its block device is mounted or open: users get errors from then on";

// A subcommand whose callback runs `work` on the arguments returned, which live as long as it does.
template <typename Arguments>
std::pair<CLI::App*, Arguments&> add_command(CLI::App& app, int& exit_code, const char* name,
                                             const char* help, int (*work)(const Arguments&)) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([arguments, work, &exit_code] { exit_code = work(*arguments); });
  return {command, *arguments};
}

void add_positional(CLI::App* command, const char* name, std::string& value, const char* help) {
  command->add_option(name, value, help)->required()->type_name("");
}

void add_value(CLI::App* command, const char* option, std::optional<std::string>& value,
               const char* type_name, const std::string& help) {
  command->add_option(option, value, help)->type_name(type_name);
}

void add_flag(CLI::App* command, const char* flag, bool& value, const char* help) {
  command->add_flag(flag, value, help)->disable_flag_override();
}

void add_start(CLI::App& app, int& exit_code) {
  auto [command, arguments] = add_command(
      app, exit_code, "start",
      "Start a device in a process of its own; prints one line per attachment (the kind, a tab,\n"
      "the path or URI) once it is usable",
      run_start);
  add_positional(command, "NAME", arguments.name,
                 "1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit");
  add_value(command, "--size", arguments.size, "SIZE",
            "Size in bytes, or with K M G T (powers of 1024); rounded up to whole pages of 4096\n"
            "bytes, at most 2^63-1. Memory is taken only for what is written. Without it the\n"
            "device waits for 'uzram set NAME disksize SIZE', and is attached then: as told\n"
            "here, or else as by --attach auto");
  add_value(command, "--count", arguments.count, "N",
            "Start N devices (1 to 1024), all or none: NAME holds %d once, for their numbers\n"
            "from 0");
  add_value(command, "--type", arguments.type, "TYPE",
            "zram (compressed, the default) or ram (not)");
  add_value(command, "--algo", arguments.algo, "CODEC",
            "Codec of a zram device, lz4 unless given: " + control::codec_names() +
                (codec::find("lzo-rle") != nullptr ? ".\nlzo-rle is taken for lzo; " : ".\n") +
                "842 is not offered");
  add_value(command, "--level", arguments.level, "N", "Level of the codec");
  add_value(
      command, "--dict", arguments.dict, "FILE",
      "Dictionary for lz4, lz4hc or zstd: data like the pages to come, at most 1 MiB, or what\n"
      "'zstd --train' made of it. Read now, not needed later");
  add_value(command, "--mem-limit", arguments.mem_limit, "SIZE",
            "Most memory for stored pages, rounded up to a page; 0: no limit (the default).\n"
            "A write that would exceed it fails with ENOSPC and changes nothing");
  add_value(command, "--block-size", arguments.block_size, "N",
            "Logical block told to clients: 512 or 4096 (the default)");
  add_value(
      command, "--backing", arguments.backing, "PATH|URI",
      "Backing store, where 'uzram writeback' moves pages: a file or block device, or an NBD\n"
      "export as nbd://HOST[:PORT]/[EXPORT] or nbd+unix:///[EXPORT]?socket=PATH. The\n"
      "device's alone; what it holds is lost");
  add_value(command, "--nbd", arguments.nbd, "ADDRESS",
            "Serve NBD at unix:PATH or tcp:HOST:PORT; auto: a Unix socket NAME.nbd in the\n"
            "runtime directory");
  add_flag(command, "--loop", arguments.loop,
           "Provide /dev/loopN on a file mounted by FUSE; without root, the file alone");
  add_value(command, "--attach", arguments.attach, "auto",
            "auto: the best attachment here, --loop where it gives a block device, else\n"
            "--nbd auto");
  add_flag(command, "--foreground", arguments.foreground,
           "Serve from this process, until SIGTERM or SIGINT");
  add_flag(command, "--read-only", arguments.read_only, "Refuse writes");
}

void add_stop(CLI::App& app, int& exit_code) {
  auto [command, arguments] = add_command(
      app, exit_code, "stop",
      "Stop a device, and drop its data; of a dead one, clear away what it left", run_stop);
  add_positional(command, "NAME", arguments.name, "Name of the device");
  add_flag(command, "--force", arguments.force, kForceHelp);
}

void add_reset(CLI::App& app, int& exit_code) {
  auto [command, arguments] = add_command(
      app, exit_code, "reset",
      "Drop all data and counters of a device; size, codec, limit and attachments stay", run_reset);
  add_positional(command, "NAME", arguments.name, "Name of the device");
  add_flag(command, "--force", arguments.force,
           "Also while clients have the device open; what they have cached stays theirs");
}

void add_list(CLI::App& app, int& exit_code) {
  auto [command, arguments] =
      add_command(app, exit_code, "list", "List the devices, dead ones too", run_list);
  add_flag(command, "--json", arguments.json, "An array of objects, sizes in bytes");
}

void add_stat(CLI::App& app, int& exit_code) {
  auto [command, arguments] =
      add_command(app, exit_code, "stat", "Show the counters of a device", run_stat);
  add_positional(command, "NAME", arguments.name, "Name of the device");
  add_flag(command, "--json", arguments.json, "One object, sizes in bytes");
}

// The attributes of one kind of access, for the help texts.
std::string attribute_table(bool (control::Attribute::*wanted)() const noexcept) {
  std::vector<TableRow> rows = {{"ATTR", "ACCESS", "UNIT", "MEANING"}};
  for (const control::Attribute& attribute : control::attributes()) {
    if (!(attribute.*wanted)()) continue;
    rows.push_back({std::string(attribute.name), std::string(attribute.access()),
                    std::string(attribute.unit), std::string(attribute.help)});
  }
  return format_table(rows);
}

void add_get(CLI::App& app, int& exit_code) {
  auto [command, arguments] =
      add_command(app, exit_code, "get", "Print an attribute of a device", run_get);
  add_positional(command, "NAME", arguments.name, "Name of the device");
  add_positional(command, "ATTR", arguments.attribute, "Name of the attribute");
  command->footer([] { return attribute_table(&control::Attribute::readable); });
}

void add_set(CLI::App& app, int& exit_code) {
  auto [command, arguments] =
      add_command(app, exit_code, "set", "Change an attribute of a device", run_set);
  add_positional(command, "NAME", arguments.name, "Name of the device");
  add_positional(command, "ATTR", arguments.attribute, "Name of the attribute");
  add_positional(command, "VALUE", arguments.value, "The new value");
  command->footer([] { return attribute_table(&control::Attribute::writable); });
}

void add_words(CLI::App* command, PassArguments& arguments, const char* name, const char* help) {
  add_positional(command, "NAME", arguments.name, "Name of the device");
  if (name != nullptr) command->add_option(name, arguments.words, help)->type_name("");
}

void add_idle(CLI::App& app, int& exit_code) {
  auto [command, arguments] = add_command(
      app, exit_code, "idle", "Mark pages as idle until they are read or written again", run_idle);
  add_words(command, arguments, "AGE",
            "all (the default), or only those not used for so many seconds");
}

void add_recompress(CLI::App& app, int& exit_code) {
  auto [command, arguments] = add_command(
      app, exit_code, "recompress",
      "Pack pages anew with the codecs of recomp_algorithm, largest first", run_recompress);
  add_words(command, arguments, "KEY=VALUE",
            "type=idle|huge|huge_idle threshold=BYTES max_pages=N priority=1..3 algo=CODEC");
}

void add_writeback(CLI::App& app, int& exit_code) {
  auto [command, arguments] =
      add_command(app, exit_code, "writeback",
                  "Move pages to the backing store, largest first; they are read back where they\n"
                  "are needed",
                  run_writeback);
  add_words(command, arguments, "WORD",
            "idle, huge, huge_idle or incompressible, and page_index=N or page_indexes=FIRST-LAST\n"
            "as often as wanted; with both, the pages of that type among these");
}

void add_compact(CLI::App& app, int& exit_code) {
  auto [command, arguments] = add_command(
      app, exit_code, "compact", "Give memory back now rather than in the background", run_compact);
  add_words(command, arguments, nullptr, nullptr);
}

void add_attach(CLI::App& app, int& exit_code) {
  auto [command, arguments] = add_command(
      app, exit_code, "attach",
      "Give a running device one more way in; prints the kind, a tab, where", run_attach);
  add_positional(command, "NAME", arguments.name, "Name of the device");
  add_positional(command, "KIND[:ARG]", arguments.what,
                 "nbd (a socket in the runtime directory), nbd:unix:PATH, nbd:tcp:HOST:PORT, or\n"
                 "loop");
}

void add_detach(CLI::App& app, int& exit_code) {
  auto [command, arguments] =
      add_command(app, exit_code, "detach", "End an attachment of a running device", run_detach);
  add_positional(command, "NAME", arguments.name, "Name of the device");
  add_positional(command, "KIND", arguments.kind, "nbd or loop");
  add_flag(command, "--force", arguments.force, kForceHelp);
}

void add_sysfs(CLI::App& app, int& exit_code) {
  auto [command, arguments] = add_command(
      app, exit_code, "sysfs",
      "Mount a tree with the files that the kernel's zram has under /sys, over all\n"
      "devices: class/zram-control, block/NAME, dev/NAME. Ends with umount or SIGTERM;\n"
      "devices live on",
      run_sysfs);
  add_positional(command, "MOUNTPOINT", arguments.directory, "A directory that is there");
  add_flag(command, "--foreground", arguments.foreground,
           "Serve from this process rather than in the background");
}

// In the order of the help text.
using AddCommand = void (*)(CLI::App& app, int& exit_code);
const std::vector<AddCommand> kCommands = {add_start,      add_stop,      add_reset,   add_list,
                                           add_stat,       add_get,       add_set,     add_idle,
                                           add_recompress, add_writeback, add_compact, add_attach,
                                           add_detach,     add_sysfs,     add_bench};

// CLI11 takes its arguments last first. `--name=` is given as an option and an empty value, which
// the option then judges; CLI11 alone would take the next argument for the value.
std::vector<std::string> reversed_arguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    if (argument.size() > 3 && argument.starts_with("--") && argument.ends_with('=')) {
      argument.pop_back();
      arguments.emplace_back();
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

std::string explain(const CLI::App& app, int argc, const char* const* argv,
                    const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  if (!chosen.empty()) {
    const std::string& command = chosen.front()->get_name();
    return command + ": " + error.what() + " (see 'uzram " + command + " --help')";
  }
  if (argc < 2) return "a command is missing: see 'uzram --help'";
  return "'" + std::string(argv[1]) + "': neither a command nor an option: see 'uzram --help'";
}

int parse(CLI::App& app, int argc, const char* const* argv, const int& exit_code) {
  try {
    app.parse(reversed_arguments(argc, argv));
    return exit_code;
  } catch (const CLI::CallForVersion& version) {
    return finish(std::string(version.what()) + "\n");
  } catch (const CLI::Success&) {
    // --help, of the program or of a subcommand.
    return finish(app.help());
  } catch (const CLI::ParseError& error) {
    return report({Status::invalid_argument, explain(app, argc, argv, error)});
  }
}

// A caller may have closed standard descriptors: what we open must not take their place, nor be
// taken for them. Read-only, so that printing still fails.
void fill_standard_descriptors() {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDONLY);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

}  // namespace

std::unique_ptr<CLI::App> make_app(int& exit_code) {
  auto app = std::make_unique<CLI::App>("A block device whose contents live in compressed memory.",
                                        "uzram");
  app->set_version_flag("--version", "uzram " UZRAM_VERSION, "Print the version and exit");
  app->set_help_flag("--help,-h", "Print this help and exit");
  app->require_subcommand(1);
  app->footer(
      "Devices leave their sockets in $UZRAM_RUNTIME_DIR, else /run/uzram for root, else\n"
      "$XDG_RUNTIME_DIR/uzram. Exit status: 0 done, 1 failed, 2 wrong usage.");
  for (const AddCommand add : kCommands) add(*app, exit_code);
  return app;
}

int run(int argc, const char* const* argv) {
  fill_standard_descriptors();
  // A reader that went away is an error of `print`, not a death without a word.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    int exit_code = kExitDone;
    const auto app = make_app(exit_code);
    return parse(*app, argc, argv, exit_code);
  } catch (const std::exception& error) {
    return report({Status::io_error, std::string("internal error: ") + error.what()});
  }
}

}  // namespace uzram::cli
