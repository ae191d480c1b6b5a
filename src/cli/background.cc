#include "cli/background.h"

// Parent and child share a socket pair. The child sends one message: a byte, '0' or its exit
// status, then text for people, then NUL. The parent prints the text and, for '0', answers with one
// byte. Only then does the child go on: where the lines could not be printed, or nobody is left to
// print them, the service is taken down again.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/fd.h"
#include "cli/output.h"

namespace uzram::cli {
namespace {

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// Up to a NUL, which is not returned; shorter where the peer went away first.
std::string receive_message(int socket) {
  std::string message;
  std::array<char, 1024> buffer;
  for (;;) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return message;
    message.append(buffer.data(), static_cast<std::size_t>(got));
    if (message.back() == '\0') {
      message.pop_back();
      return message;
    }
  }
}

std::string message_of(int exit_code, std::string_view text) {
  std::string message(1, static_cast<char>('0' + exit_code));
  message += text;
  message += '\0';
  return message;
}

// What the caller has open is the caller's: a pipe of a script must not stay open for as long as
// the service lives.
void leave_everything(int keep) {
  ::setsid();
  static_cast<void>(::chdir("/"));
  ::close_range(3, static_cast<unsigned>(keep) - 1, 0);
  ::close_range(static_cast<unsigned>(keep) + 1, ~0U, 0);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, standard);
  ::close(null);
}

int serve_as_child(const Service& service, base::Fd parent) {
  leave_everything(parent.get());
  const Ready ready = [&parent](std::string_view lines) -> Result<void> {
    char acknowledged = 0;
    if (!send_all(parent.get(), message_of(kExitDone, lines)) ||
        ::recv(parent.get(), &acknowledged, 1, 0) != 1) {
      return fail(Status::io_error, "start: nobody waits for it any more");
    }
    parent.reset();
    return {};
  };
  const auto served = service(ready);
  if (served) return kExitDone;
  const int status = exit_status(served.error().status);
  if (parent)
    static_cast<void>(send_all(parent.get(), message_of(status, error_line(served.error()))));
  return status;
}

// How a child ended that said nothing.
Error explain_end(const std::string& what, int wait_status) {
  std::string why = "exit status " + std::to_string(WEXITSTATUS(wait_status));
  if (WIFSIGNALED(wait_status)) why = ::strsignal(WTERMSIG(wait_status));
  return {Status::io_error, what + ": the process ended while it started: " + why};
}

int wait_for_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Outcome outcome_of(const Error& error) {
  return {false, exit_status(error.status), error_line(error)};
}

}  // namespace

Outcome run_in_background(const std::string& what, const Service& service, const Ready& print) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return outcome_of(fail_errno(errno, what).value());
  }
  base::Fd ours(pair[0]);
  base::Fd theirs(pair[1]);
  const pid_t child = ::fork();
  if (child < 0) return outcome_of(fail_errno(errno, what).value());
  if (child == 0) {
    ours.reset();
    return {true, serve_as_child(service, std::move(theirs)), ""};
  }
  theirs.reset();
  const std::string message = receive_message(ours.get());
  if (message.empty()) return outcome_of(explain_end(what, wait_for_child(child)));
  const std::string text = message.substr(1);
  if (message.front() != '0') {
    // The child has cleaned up before it spoke, but its name is free only when it has gone.
    wait_for_child(child);
    return {false, message.front() - '0', text};
  }
  const auto printed = print(text);
  if (!printed) {
    ours.reset();
    wait_for_child(child);
    return outcome_of(printed.error());
  }
  static_cast<void>(send_all(ours.get(), "+"));
  return {};
}

int report(const Outcome& outcome) {
  return outcome.error_line.empty() ? outcome.status
                                    : report_line(outcome.error_line, outcome.status);
}

}  // namespace uzram::cli
