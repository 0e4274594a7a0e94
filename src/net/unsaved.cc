#include "net/unsaved.h"

#include "tree/tree.h"

namespace isotherm::net {

Unsaved unsaved_by(const ServerState& server) {
  const Tree* const tree = server.engine.tree();
  if (tree == nullptr) return Unsaved::by_journal;
  const Unsaved its = tree->lasts() ? Unsaved::by_tree : Unsaved::by_gpu;
  const Journal* const journal = server.journal;
  if (journal == nullptr) return its;
  if (journal->error() != 0) return Unsaved::by_journal;
  // It asks the journal, too, which does not fail.
  if (tree->refuses()) return its;
  return journal->last_error() != 0 ? Unsaved::by_journal : its;
}

std::string_view unsaved_line(const ServerState& server) {
  switch (unsaved_by(server)) {
    case Unsaved::by_tree:
      return "SERVER_ERROR the files of the tree cannot be written\r\n";
    case Unsaved::by_gpu:
      return "SERVER_ERROR there is no room for more items (gpu-items)\r\n";
    case Unsaved::by_journal:
      break;
  }
  return "SERVER_ERROR the journal cannot be written\r\n";
}

}  // namespace isotherm::net
