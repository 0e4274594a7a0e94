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

  // The row that is answered next has this number.
  void go_to(uint32_t number) { number_ = number; }
  Location of_device(uint32_t number) const {
    return found_.found[number] == 1 ? found_.roots[number] : location::none;
  }
  // This and what follows is about the row that is answered.
  Location find() const {
    const Location root = of_device(number_);
    return overlay_ != nullptr ? overlay_->root(found_.keys[number_], root) : root;
  }
  RoundIndex* to_write(const Run& run, Row /*row*/, const Request& request, Reply& /*reply*/) {
    Database& database = run.executor.store().databases[request.database];
    return &index_.emplace(overlay_, database, found_.keys[number_], of_device(number_));
  }

  static void answer_object(Run& run, Row row, const Request& request, RoundIndex& index) {
    ObjectAnswers<RoundIndex>::answer(run, row, request, index);
  }

 private:
  RoundOverlay* const overlay_;
  const RootColumns& found_;
  uint32_t number_ = 0;
  std::optional<RoundIndex> index_;  // of the row that writes now
};

}  // namespace

void run_round_stages(HostExecutor::Run& run, const RoundShare& share, const RootColumns& found,
                      const uint32_t* numbers, uint32_t count, const uint32_t* rows) {
  using Answers = RowAnswers<TilePlain, RoundRoots>;
  // Rows whose items and keys are on their way, and rows whose columns are: those of a share lie
  // apart, so the processor does not see them coming.
  constexpr uint32_t ahead = 16;
  constexpr uint32_t columns_ahead = 2 * ahead;
  RoundRoots roots(share.overlay, found);
  const auto number_at = [&](uint32_t i) { return numbers != nullptr ? numbers[i] : i; };
  const auto row_of = [&](uint32_t number) { return rows != nullptr ? rows[number] : number; };
  const auto prefetch_columns = [&](uint32_t i) {
    const uint32_t number = number_at(i);
    const Batch::Row row = row_of(number);
    __builtin_prefetch(&run.columns.key[row]);
    __builtin_prefetch(&found.roots[number]);
    const auto* reply = reinterpret_cast<const char*>(&run.columns.reply[row]);
    __builtin_prefetch(reply, 1);
    __builtin_prefetch(reply + sizeof(Reply) - 1, 1);
  };
  const auto prefetch_item = [&](uint32_t i) {
    const uint32_t number = number_at(i);
    const Batch::Row row = row_of(number);
    __builtin_prefetch(run.columns.key[row].data());
    isotherm::prefetch_item(run.executor.store(), roots.of_device(number),
                            run.columns.op[row] == Op::get);
  };
  for (uint32_t i = 0; i < std::min(columns_ahead, count); ++i) prefetch_columns(i);
  for (uint32_t i = 0; i < std::min(ahead, count); ++i) prefetch_item(i);
  for (uint32_t i = 0; i < count; ++i) {
    if (i + columns_ahead < count) prefetch_columns(i + columns_ahead);
    if (i + ahead < count) prefetch_item(i + ahead);
    const uint32_t number = number_at(i);
    const Batch::Row row = row_of(number);
    if (run.parking != nullptr && run.parks_behind(row)) continue;
    roots.go_to(number);
    const Op op = run.columns.op[row];
    if (op == Op::get) {
      Answers::get(run, roots, row, roots.find());
    } else {
      Answers::change(run, roots, row, op);
    }
  }
}

}  // namespace isotherm
