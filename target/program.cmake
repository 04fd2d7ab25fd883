# The program around the target: its command line, its configuration file, what
# it prints. Included by target/CMakeLists.txt; options.cc belongs to
# sluice::target, which validates what it is given.
sluice_library(sluiced
  HDRS config.h config_shape.h config_values.h daemon.h daemon_events.h daemon_memory.h
       daemon_ready.h daemon_restart.h flags.h flags_values.h provider.h
       stats_json.h
  SRCS config.cc config_shape.cc config_values.cc daemon.cc daemon_events.cc daemon_memory.cc
       daemon_ready.cc daemon_restart.cc flags.cc flags_values.cc provider.cc
       stats_json.cc
  DEPS sluice::target sluice::iwarp absl::strings absl::time absl::span CLI11::CLI11
       nlohmann_json::nlohmann_json PkgConfig::tomlplusplus PkgConfig::systemd)
target_compile_definitions(sluice_sluiced
  PRIVATE SLUICE_VERSION="${PROJECT_VERSION}")

sluice_program(sluiced SRCS main.cc DEPS sluice::sluiced)
