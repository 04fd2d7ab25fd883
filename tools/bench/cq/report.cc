#include "tools/bench/cq/report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/bench/bench_run.h"

namespace sluice::bench {
namespace {

using Json = nlohmann::json;

bool IsWave(const CqCell& cell) { return cell.load.half_period_nanos > 0; }

// The median where every sample has it.
std::optional<double> MedianOf(const CqCell& cell,
                               std::optional<double> CqSample::*figure) {
  std::vector<double> values;
  for (const CqSample& sample : cell.samples) {
    if (!(sample.*figure).has_value()) return std::nullopt;
    values.push_back((sample.*figure).value_or(0));
  }
  if (values.empty()) return std::nullopt;
  return Median(std::move(values));
}

std::string Text(std::optional<double> value, const char* format) {
  if (!value) return "n/a";
  char text[32];
  std::snprintf(text, sizeof(text), format, *value);
  return text;
}

void PrintRow(const CqCell& cell) {
  const double rate = cell.MedianOf(&CqSample::per_second);
  const auto calls = MedianOf(cell, &CqSample::calls_per_second);
  const bool spoke = rate > 0;
  std::printf(
      "%-11s %-7s %9.0f %8.1f %8.1f %8.1f %17s %7.3f %6.1f %6.1f %8.0f %8s "
      "%6s\n",
      cell.load.name.c_str(), cell.mode.c_str(), rate,
      cell.MedianOf(&CqSample::p50_us), cell.MedianOf(&CqSample::p99_us),
      cell.MedianOf(&CqSample::p999_us),
      IsWave(cell)
          ? Text(cell.MedianOf(&CqSample::after_pause_p99_us), "%.1f").c_str()
          : absl::StrCat(Text(cell.MinOf(&CqSample::p99_us), "%.1f"), "-",
                         Text(cell.MaxOf(&CqSample::p99_us), "%.1f"))
                .c_str(),
      cell.MedianOf(&CqSample::cpu_us_per_message),
      100 * cell.MedianOf(&CqSample::cpu_share),
      100 * cell.MedianOf(&CqSample::client_cpu_share),
      cell.MedianOf(&CqSample::sleeps_per_second),
      spoke && calls ? Text(*calls / rate, "%.3f").c_str() : "n/a",
      Text(MedianOf(cell, &CqSample::watts), "%.1f").c_str());
}

// Data for gnuplot: a block for each mode, a line for each load.
void WriteData(const std::string& path, const std::vector<CqCell>& cells,
               bool waves) {
  std::map<std::string, std::string> blocks;
  for (const CqCell& cell : cells) {
    if (IsWave(cell) != waves) continue;
    const double x =
        waves ? 1e-6 * static_cast<double>(cell.load.half_period_nanos)
              : 100 * cell.load.share;
    absl::StrAppend(
        &blocks[cell.mode], x, " ", cell.MedianOf(&CqSample::p99_us), " ",
        cell.MinOf(&CqSample::p99_us), " ", cell.MaxOf(&CqSample::p99_us), " ",
        100 * cell.MedianOf(&CqSample::cpu_share), " ",
        100 * cell.MinOf(&CqSample::cpu_share), " ",
        100 * cell.MaxOf(&CqSample::cpu_share), " ",
        cell.MedianOf(&CqSample::after_pause_p99_us), "\n");
  }
  std::ofstream out(path);
  const char* separator = "";
  for (const auto& [mode, lines] : blocks) {
    out << separator << "\"" << mode << "\"\n" << lines;
    separator = "\n\n";
  }
}

struct Plot {
  const char* file;
  const char* data;
  const char* title;
  const char* x;
  const char* y;
  const char* columns;
  bool log_x;
  bool log_y;
};

// From here on hybrid is held to what polling reaches, below to what events
// cost.
constexpr double kHighLoad = 0.75;

constexpr Plot kPlots[] = {
    {"p99", "loads.dat", "p99 by load, median and spread", "load, %", "p99, us",
     "1:2:3:4", false, true},
    {"cpu", "loads.dat", "Server's processor time by load", "load, %",
     "share of a processor, %", "1:5:6:7", false, false},
    {"wave-p99", "waves.dat", "p99 in square waves", "half period, ms",
     "p99, us", "1:2:3:4", true, true},
    {"wave-cpu", "waves.dat", "Server's processor time in square waves",
     "half period, ms", "share of a processor, %", "1:5:6:7", true, false},
};

const CqCell* Find(const std::vector<CqCell>& cells, const std::string& load,
                   const std::string& mode) {
  for (const CqCell& cell : cells) {
    if (cell.load.name == load && cell.mode == mode) return &cell;
  }
  return nullptr;
}

// One figure of hybrid beside another mode's, repeat by repeat: the median and
// the spread of the ratios.
std::string Ratio(const CqCell& hybrid, const CqCell& other,
                  double CqSample::*figure) {
  std::vector<double> ratios;
  const size_t count = std::min(hybrid.samples.size(), other.samples.size());
  for (size_t i = 0; i < count; ++i) {
    const double below = other.samples[i].*figure;
    if (below > 0) ratios.push_back(hybrid.samples[i].*figure / below);
  }
  if (ratios.empty()) return "n/a";
  std::sort(ratios.begin(), ratios.end());
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f (%.2f-%.2f)", Median(ratios),
                ratios.front(), ratios.back());
  return text;
}

}  // namespace

void PrintGoal(const std::vector<CqCell>& cells) {
  std::printf("\n%-11s %-8s %-20s %-20s\n", "load %", "hybrid /",
              "messages or cpu", "p99");
  for (const CqCell& hybrid : cells) {
    if (hybrid.mode != "hybrid") continue;
    const bool high = !IsWave(hybrid) && hybrid.load.share >= kHighLoad;
    const CqCell* other =
        Find(cells, hybrid.load.name, high ? "poll" : "event");
    if (other == nullptr) continue;
    std::printf("%-11s %-8s %-20s %-20s\n", hybrid.load.name.c_str(),
                other->mode.c_str(),
                Ratio(hybrid, *other,
                      high ? &CqSample::per_second : &CqSample::cpu_share)
                    .c_str(),
                Ratio(hybrid, *other, &CqSample::p99_us).c_str());
  }
}

void PrintCells(const std::vector<CqCell>& cells) {
  std::printf("%-11s %-7s %9s %8s %8s %8s %17s %7s %6s %6s %8s %8s %6s\n",
              "load %", "mode", "msg/s", "p50 us", "p99 us", "p99.9",
              "spread/after wave", "us/msg", "cpu %", "client", "sleeps/s",
              "calls/msg", "watts");
  for (const CqCell& cell : cells) PrintRow(cell);
  std::fflush(stdout);
}

Json CellsJson(const std::string& provider, const std::vector<CqCell>& cells) {
  Json out = Json::array();
  for (const CqCell& cell : cells) {
    Json repeats = Json::array();
    for (const CqSample& sample : cell.samples) {
      Json one = {{"msgs_per_s", sample.per_second},
                  {"p50_us", sample.p50_us},
                  {"p99_us", sample.p99_us},
                  {"p999_us", sample.p999_us},
                  {"after_pause_p99_us", sample.after_pause_p99_us},
                  {"cpu_us_per_msg", sample.cpu_us_per_message},
                  {"cpu_share", sample.cpu_share},
                  {"client_cpu_share", sample.client_cpu_share},
                  {"sleeps_per_s", sample.sleeps_per_second},
                  {"rescued", sample.rescued}};
      if (sample.calls_per_second) {
        one["system_calls_per_s"] = *sample.calls_per_second;
      }
      if (sample.watts) one["watts"] = *sample.watts;
      repeats.push_back(std::move(one));
    }
    out.push_back(
        {{"provider", provider},
         {"mode", cell.mode},
         {"load", cell.load.name},
         {"msgs_per_s", cell.MedianOf(&CqSample::per_second)},
         {"p50_us", cell.MedianOf(&CqSample::p50_us)},
         {"p99_us", cell.MedianOf(&CqSample::p99_us)},
         {"p999_us", cell.MedianOf(&CqSample::p999_us)},
         {"cpu_us_per_msg", cell.MedianOf(&CqSample::cpu_us_per_message)},
         {"cpu_share", cell.MedianOf(&CqSample::cpu_share)},
         {"repeats", std::move(repeats)}});
  }
  return out;
}

absl::Status PlotCells(const std::string& folder,
                       const std::vector<CqCell>& cells) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::ErrnoToStatus(error.value(), folder);
  WriteData(folder + "/loads.dat", cells, /*waves=*/false);
  WriteData(folder + "/waves.dat", cells, /*waves=*/true);
  const std::string script = folder + "/plots.gnuplot";
  std::ofstream out(script);
  out << "set terminal svg size 720,440 background 'white'\n"
         "set grid\nset key left top\nset style data yerrorlines\n";
  for (const Plot& plot : kPlots) {
    const bool waves = absl::StrContains(plot.data, "waves");
    const bool any = std::any_of(
        cells.begin(), cells.end(),
        [waves](const CqCell& cell) { return IsWave(cell) == waves; });
    if (!any) continue;
    out << "set output '" << plot.file << ".svg'\nset title \"" << plot.title
        << "\"\nset xlabel '" << plot.x << "'\nset ylabel '" << plot.y << "'\n"
        << (plot.log_x ? "set logscale x\n" : "unset logscale x\n")
        << (plot.log_y ? "set logscale y\n" : "unset logscale y\n") << "stats '"
        << plot.data << "' using 1 nooutput\n"
        << "plot for [i=0:STATS_blocks-1] '" << plot.data << "' index i using "
        << plot.columns << " title columnheader(1)\n";
  }
  out.close();
  const std::string command =
      absl::StrCat("cd '", folder, "' && gnuplot plots.gnuplot");
  // NOLINTNEXTLINE(bugprone-command-processor): the operator's own folder
  if (std::system(command.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "gnuplot failed or is not installed; its script is ", script));
}

}  // namespace sluice::bench
