#include "executor/device/round_stages.h"

#include <algorithm>
#include <optional>

#include "base/tile.h"
#include "executor/host/object_answers.h"
#include "executor/host/row_answers.h"

namespace isotherm {
namespace {

// The roots of a round: as the device found them, and as the share has changed them since.
class RoundRoots {
 public:
  using Row = Batch::Row;
  using Run = HostExecutor::Run;

  RoundRoots(RoundOverlay* overlay, const RootColumns& found) : overlay_(overlay), found_(found) {}

  Location of_device(Row row) const {
    return found_.found[row] == 1 ? found_.roots[row] : location::none;
  }
  Location find(Row row) const {
    const Location root = of_device(row);
    return overlay_ != nullptr ? overlay_->root(found_.keys[row], root) : root;
  }

  RoundIndex* to_write(const Run& run, Row row, const Request& request, Reply& /*reply*/) {
    Database& database = run.executor.store().databases[request.database];
    return &index_.emplace(*overlay_, database, found_.keys[row], of_device(row));
  }

  static void answer_object(Run& run, Row row, const Request& request, RoundIndex& index) {
    ObjectAnswers<RoundIndex>::answer(run, row, request, index);
  }

 private:
  RoundOverlay* const overlay_;
  const RootColumns& found_;
  std::optional<RoundIndex> index_;  // of the row that writes now
};

}  // namespace

void run_round_stages(HostExecutor::Run& run, const RoundShare& share, const RootColumns& found,
                      const uint32_t* numbers, uint32_t count) {
  using Answers = RowAnswers<TilePlain, RoundRoots>;
  // Rows whose items and keys are on their way, and rows whose columns are: those of a share lie
  // apart, so the processor does not see them coming.
  constexpr uint32_t ahead = 16;
  constexpr uint32_t columns_ahead = 2 * ahead;
  RoundRoots roots(share.overlay, found);
  const auto row_at = [&](uint32_t i) { return numbers != nullptr ? numbers[i] : i; };
  const auto prefetch_columns = [&](uint32_t i) {
    const Batch::Row row = row_at(i);
    __builtin_prefetch(&run.columns.key[row]);
    __builtin_prefetch(&found.roots[row]);
    const auto* reply = reinterpret_cast<const char*>(&run.columns.reply[row]);
    __builtin_prefetch(reply, 1);
    __builtin_prefetch(reply + sizeof(Reply) - 1, 1);
  };
  const auto prefetch_item = [&](uint32_t i) {
    const Batch::Row row = row_at(i);
    __builtin_prefetch(run.columns.key[row].data());
    Answers::prefetch_item(run, row, roots.of_device(row));
  };
  for (uint32_t i = 0; i < std::min(columns_ahead, count); ++i) prefetch_columns(i);
  for (uint32_t i = 0; i < std::min(ahead, count); ++i) prefetch_item(i);
  for (uint32_t i = 0; i < count; ++i) {
    if (i + columns_ahead < count) prefetch_columns(i + columns_ahead);
    if (i + ahead < count) prefetch_item(i + ahead);
    const Batch::Row row = row_at(i);
    if (run.parking != nullptr && run.parks_behind(row)) continue;
    const Op op = run.columns.op[row];
    if (op == Op::get) {
      Answers::get(run, roots, row, roots.find(row));
    } else {
      Answers::change(run, roots, row, op);
    }
  }
}

}  // namespace isotherm
