// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "check.h"
#include "eagle/exec/TeamSize.h"

using namespace eagle::exec;
namespace fs = std::filesystem;

namespace {

int sizeWith(const char* eagle, const char* omp) {
    eagle ? setenv("EAGLE_NUM_THREADS", eagle, 1) : unsetenv("EAGLE_NUM_THREADS");
    omp ? setenv("OMP_NUM_THREADS", omp, 1) : unsetenv("OMP_NUM_THREADS");
    return defaultTeamSize();
}

void testVariables() {
    const int automatic = sizeWith(nullptr, nullptr);
    CHECK(automatic >= 1 && automatic <= usableProcessors());
    CHECK(sizeWith("3", "5") == 3);
    CHECK(sizeWith(nullptr, "5") == 5);
    CHECK(sizeWith(nullptr, "4,2") == 4);
    CHECK(sizeWith(" 7 ", nullptr) == 7);
    for (const char* garbage : {"", "0", "-1", "two", "3x", "1.5", "99999999999999999999", ",4"}) {
        CHECK(sizeWith(garbage, nullptr) == automatic);
        CHECK(sizeWith(garbage, "6") == 6);
        CHECK(sizeWith(nullptr, garbage) == automatic);
    }
    CHECK(sizeWith("1000000", nullptr) == kMaxTeamSize);
}

class Root {
public:
    Root() : path_(fs::temp_directory_path() / ("eagle-cgroup-" + std::to_string(getpid()))) {
        fs::create_directory(path_);
    }
    ~Root() { fs::remove_all(path_); }
    void write(const std::string& file, const std::string& text) const {
        fs::create_directories((path_ / file).parent_path());
        std::ofstream(path_ / file) << text;
    }
    std::optional<int> quota() const { return cgroupQuota(path_.string()); }

private:
    fs::path path_;
};

void testQuotas() {
    CHECK(!Root().quota());
    {
        Root root;
        root.write("proc/self/cgroup", "0::/a/b\n");
        CHECK(!root.quota());
        root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        CHECK(!root.quota());
        root.write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
        CHECK(root.quota() == 3);
        root.write("sys/fs/cgroup/a/b/cpu.max", "100000 100000\n");
        CHECK(root.quota() == 1);
        root.write("sys/fs/cgroup/a/b/cpu.max", "rubbish");
        CHECK(root.quota() == 3);
    }
    {
        Root root;  // a container: the path is the host's, the limit is at the root
        root.write("proc/self/cgroup", "0::/host/only");
        root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
        CHECK(root.quota() == 1);
    }
    {
        Root root;
        root.write("proc/self/cgroup", "7:memory:/x\n3:cpu,cpuacct:/job\n1:name=systemd:/cpu\n");
        root.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
        root.write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
        CHECK(!root.quota());
        root.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n");
        CHECK(root.quota() == 4);
    }
}

}  // namespace

int main() {
    testVariables();
    testQuotas();
}
