// The histogram of bench/isotherm_bench for the programs here, which link no library of the host.
#include "isotherm_bench/histogram.cc"
