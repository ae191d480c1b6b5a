#include "cli/commands.h"

int main(int argc, char** argv) {
  return uzram::cli::run(argc, argv);
}
