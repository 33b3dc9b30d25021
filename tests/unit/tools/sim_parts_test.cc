// The parts of `verbena sim` that need no run: tables, files, pages, the grid of a sweep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tools/page.h"
#include "tools/sim_files.h"
#include "tools/sim_sweep.h"
#include "tools/text_table.h"
#include "tools/whole_file.h"

namespace verbena::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({"port", "use", "max"});
  EXPECT_TRUE(table.empty());
  table.row({"leaf0:3 -> h3", "1.0 %", "0 B"});
  table.row({"h0", "99.9 %"});
  EXPECT_EQ(table.text(),
            "port              use  max\n"
            "leaf0:3 -> h3   1.0 %  0 B\n"
            "h0             99.9 %\n");
}

TEST(TextTable, ThreeDigitsThatMatter) {
  EXPECT_EQ(short_bytes(0), "0 B");
  EXPECT_EQ(short_bytes(999), "999 B");
  EXPECT_EQ(short_bytes(1000), "1.00 KB");
  EXPECT_EQ(short_bytes(999'999), "1.00 MB");  // not 1000 KB
  EXPECT_EQ(short_bytes(25'100'000), "25.1 MB");
  EXPECT_EQ(short_time(83'840), "83.8 ns");
  EXPECT_EQ(short_time(2 * fabric::kSecond), "2.00 s");
  EXPECT_EQ(short_time(1), "1 ps");
  EXPECT_EQ(short_count(12), "12");
  EXPECT_EQ(short_count(6'120'000), "6.12 M");
  EXPECT_EQ(short_number(0), "-");
  EXPECT_EQ(short_number(95.42), "95.4");
  EXPECT_EQ(short_number(1234.5), "1234");
}

class Files : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_), nullptr); }
  void TearDown() override {
    unlink(path("x").c_str());
    EXPECT_EQ(rmdir(folder_), 0) << "something was left";
  }
  std::string path(const char* name) const { return std::string(folder_) + "/" + name; }
  static std::string content(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  char folder_[32] = "/tmp/verbena-files-XXXXXX";
};

TEST_F(Files, IsThereOnlyWhenWhole) {
  ASSERT_TRUE(write_whole_file(path("x"), "old"));
  {
    auto file = WholeFile::create(path("x"));
    ASSERT_TRUE(file);
    file->write("half of");
    EXPECT_EQ(content(path("x")), "old");
  }  // given up: the old one stands, and TearDown() finds nothing beside it
  EXPECT_EQ(content(path("x")), "old");
  auto file = WholeFile::create(path("x"));
  ASSERT_TRUE(file);
  file->write("new ");
  file->write("text");
  EXPECT_EQ(content(path("x")), "old");
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(content(path("x")), "new text");
}

TEST_F(Files, SaysWhyItCannotBeMade) {
  auto file = WholeFile::create(path("no/x"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ENOENT);
  EXPECT_EQ(file.error().message, "cannot write " + path("no/x") + ": No such file or directory");
  EXPECT_EQ(WholeFile::create(folder_).error().message,
            std::string("cannot write ") + folder_ + ": Is a directory");
}

TEST_F(Files, OneNameForTwoFilesIsAMistake) {
  auto first = WholeFile::create(path("x"));
  ASSERT_TRUE(first);
  EXPECT_EQ(WholeFile::create(path("x")).error().message,
            "cannot write " + path("x") + ": File exists");
  first->write("one");
  ASSERT_TRUE(first->commit());
  EXPECT_EQ(content(path("x")), "one");
}

TEST_F(Files, ALinkStaysOne) {
  ASSERT_TRUE(write_whole_file(path("x"), "old"));
  ASSERT_EQ(symlink("x", path("link").c_str()), 0);
  ASSERT_TRUE(write_whole_file(path("link"), "new"));
  EXPECT_EQ(content(path("x")), "new");
  struct stat about;
  ASSERT_EQ(lstat(path("link").c_str(), &about), 0);
  EXPECT_TRUE(S_ISLNK(about.st_mode));
  unlink(path("link").c_str());
}

TEST_F(Files, AFullDiskIsSaidAtTheEnd) {
  auto file = WholeFile::create("/dev/full");
  ASSERT_TRUE(file);
  file->write("x");
  auto good = file->commit();
  ASSERT_FALSE(good);
  EXPECT_EQ(good.error().message, "cannot write /dev/full: No space left on device");
  struct stat about;
  ASSERT_EQ(stat("/dev/full", &about), 0);  // a device is never replaced
  EXPECT_TRUE(S_ISCHR(about.st_mode));
}

TEST_F(Files, AFolderMayBeThere) {
  EXPECT_TRUE(make_folder(folder_));
  ASSERT_TRUE(write_whole_file(path("x"), ""));
  EXPECT_EQ(make_folder(path("x")).error().message,
            "cannot make the folder " + path("x") + ": Not a directory");
}

TEST(Csv, QuotesWhatItMust) {
  EXPECT_EQ(csv_cell("leaf0:3 -> h3"), "leaf0:3 -> h3");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(csv_cell("two\nlines"), "\"two\nlines\"");
}

TEST(Page, WhatComesFromOutsideIsText) {
  EXPECT_EQ(escape_html("<b a='1'>&\""), "&lt;b a=&#39;1&#39;&gt;&amp;&quot;");
  TextTable table({"name", "value"});
  table.row({"<script>", "1"});
  EXPECT_THAT(html_table(table), HasSubstr("<td class=\"word\">&lt;script&gt;</td><td>1</td>"));
  const std::string page = whole_page("<t>", "<p>body</p>", {{"name", "</script><b>\xff"}});
  EXPECT_THAT(page, HasSubstr("<title>&lt;t&gt;</title>"));
  EXPECT_THAT(page, HasSubstr("<p>body</p>"));
  EXPECT_THAT(page, HasSubstr("{\"name\":\"\\u003c/script>\\u003cb>\xef\xbf\xbd\"}"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme"));  // the style is inside
  EXPECT_THAT(page, HasSubstr("getElementById"));        // and so is the script
  EXPECT_THAT(page, Not(HasSubstr("src=")));             // nothing is fetched
  EXPECT_THAT(page, Not(HasSubstr("href=")));
}

TEST(Sweep, CommasPartValuesOnlyOutsideOfBracketsAndQuotes) {
  auto key = parse_sweep("switch.pfc.priorities=[3],[3,4]");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->key, "switch.pfc.priorities");
  EXPECT_EQ(key->values, (std::vector<std::string>{"[3]", "[3,4]"}));
  EXPECT_EQ(parse_sweep("a='x,y',z")->values, (std::vector<std::string>{"'x,y'", "z"}));
  EXPECT_EQ(parse_sweep("a=1")->values, (std::vector<std::string>{"1"}));
  EXPECT_EQ(parse_sweep("a").error().message, "--sweep a: write KEY=VALUE");
  EXPECT_EQ(parse_sweep("a=1,").error().message, "--sweep a=1,: an empty value; write KEY=V1,V2");
  EXPECT_EQ(parse_sweep("a=[1,2").error().message,
            "--sweep a=[1,2: a bracket or quote is not closed");
}

TEST(Sweep, EveryCombinationTheLastKeyFastest) {
  auto grid = sweep_grid({"a=1,2", "b=x,y,z"});
  ASSERT_TRUE(grid);
  ASSERT_EQ(grid->size(), 6u);
  EXPECT_EQ((*grid)[0][0].value + (*grid)[0][1].value, "1x");
  EXPECT_EQ((*grid)[1][0].value + (*grid)[1][1].value, "1y");
  EXPECT_EQ((*grid)[5][0].value + (*grid)[5][1].value, "2z");
  EXPECT_EQ((*grid)[5][1].key, "b");
  std::string many = "a=0";
  for (int i = 1; i < 101; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(sweep_grid({many, many}).error().message, HasSubstr("more than 10000 runs"));
}

}  // namespace
}  // namespace verbena::tools
