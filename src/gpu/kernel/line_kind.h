// LineKind: the line index as an index kind (gpu/kernel/index_kind.h says what that is), by the
// parts of this folder: views and homes (table_view.h), lookups (warp_find.h), places of writes
// (write_place.h), updates by a tile (table_update.h, tile_rows.h).
#pragma once

#include <cstdint>

#include "gpu/kernel/settle_kernels.h"
#include "gpu/kernel/table_update.h"
#include "gpu/kernel/tile_rows.h"
#include "gpu/kernel/warp_find.h"
#include "gpu/kernel/write_place.h"

namespace isotherm {

struct ScanKernel;
template <class Device>
class LineOwner;

struct LineKind {
  using View = TableView;
  using Home = isotherm::Home;
  using Totals = isotherm::Totals;
  using FindShared = isotherm::FindShared<FoundWord>;
  using PlaceShared = isotherm::FindShared<WritePlace>;
  template <class Lane>
  using Update = TableUpdate<Lane>;
  template <class Device>
  using Owner = LineOwner<Device>;  // gpu/table/line_owner.h
  using Scan = ScanKernel;          // gpu/table/scan_kernel.h
  // Writes of lanes change no slot but that of their key, and no chain.
  static constexpr bool finds_beside_writes = true;

  template <uint32_t rows_per_tile, class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Found find(const SteadyTile<Lane>& tile,
                                                         FindShared& shared, const Home& home) {
    return find_in_warp<rows_per_tile>(tile, shared, home);
  }
  template <uint32_t rows_per_tile, uint32_t at_a_time, class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static WritePlace find_place(
      const SoleWriterTile<Lane>& tile, PlaceShared& shared, const Home& home) {
    return find_write_place<rows_per_tile, at_a_time>(tile, shared, home);
  }
  template <uint32_t rows_per_tile, uint32_t at_a_time, class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static WritePlace find_first_place(
      const SoleWriterTile<Lane>& tile, PlaceShared& shared, const Home& home) {
    return isotherm::find_first_place<rows_per_tile, at_a_time>(tile, shared, home);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static bool write(const WritePlace& place, const Home& home,
                                                         KeyState to) {
    return write_at<Lane>(place, home.hash, to);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static bool claim(const WritePlace& place, const Home& home,
                                                         uint64_t value) {
    return claim_from<Lane>(place, home.hash, value);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Pair load(const SoleWriterTile<Lane>& tile,
                                                        const Home& home) {
    return tile.load(home.line);
  }
  template <class Lane, class Work>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void tile_rows(const SoleWriterTile<Lane>& tile,
                                                             const Home& home, Work&& work) {
    isotherm::tile_rows(tile, home, work);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void count(const SoleWriterTile<Lane>& tile,
                                                         const View& table, int32_t entries) {
    add_entries(tile, table, sum_in_tile(tile, entries));
  }
};

}  // namespace isotherm
