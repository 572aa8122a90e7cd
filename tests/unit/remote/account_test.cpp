#include "remote/account.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "core/files.h"
#include "support/error_text.h"

namespace lockstep::remote {
namespace {
namespace fs = std::filesystem;

struct Home {
  core::TempDir folder{"lockstep_home"};
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(folder.path() / ".aws");
    std::ofstream(folder.path() / ".aws" / name) << text;
  }
  Account account(const std::map<std::string, std::string>& variables) const {
    return find_account(
        [&](const char* name) {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        },
        folder.path());
  }
};

TEST(Account, VariablesComeBeforeFiles) {
  const Home home;
  home.write("credentials", "[default]\naws_access_key_id = FILE\naws_secret_access_key = fs\n");
  home.write("config", "[default]\nregion = eu-north-1\nendpoint_url = https://own.example.org/\n");
  const Account of_file = home.account({});
  EXPECT_EQ(of_file.credentials.key_id, "FILE");
  EXPECT_EQ(of_file.credentials.secret, "fs");
  EXPECT_EQ(of_file.region, "eu-north-1");
  EXPECT_EQ(of_file.endpoint, "https://own.example.org");
  const Account of_variables = home.account({{"AWS_ACCESS_KEY_ID", "ENV"},
                                             {"AWS_SECRET_ACCESS_KEY", "es"},
                                             {"AWS_SESSION_TOKEN", "et"},
                                             {"AWS_DEFAULT_REGION", "us-west-2"},
                                             {"AWS_ENDPOINT_URL", "http://localhost:1"},
                                             {"AWS_ENDPOINT_URL_S3", "http://localhost:2"}});
  EXPECT_EQ(of_variables.credentials.key_id, "ENV");
  EXPECT_EQ(of_variables.credentials.token, "et");
  EXPECT_EQ(of_variables.profile_credentials.key_id, "FILE") << "for when those of the environment expire";
  EXPECT_EQ(of_variables.region, "us-west-2");
  EXPECT_EQ(of_variables.endpoint, "http://localhost:2");
}

TEST(Account, ProfilesOfEitherFile) {
  const Home home;
  home.write("config",
             "# a comment\n[profile work]\nregion=ap-south-1\naws_access_key_id=W\naws_secret_access_key=w=w\n"
             "s3 =\n  region = nested\n; another\n[default]\nregion = eu-west-1\n");
  const Account work = home.account({{"AWS_PROFILE", "work"}});
  EXPECT_EQ(work.credentials.key_id, "W");
  EXPECT_EQ(work.credentials.secret, "w=w");
  EXPECT_EQ(work.region, "ap-south-1");
  const Account none = home.account({});
  EXPECT_FALSE(none.credentials.are_there());
  EXPECT_EQ(none.region, "eu-west-1");
  EXPECT_TRUE(tests::holds(none.looked_in, "profile 'default' of"));
  EXPECT_EQ(Home().account({}).region, "us-east-1");
}

TEST(Account, SaysWhatIsWrong) {
  const Home home;
  const auto why = [&](const std::map<std::string, std::string>& variables) {
    return tests::message_of<EnvironmentError>([&] { home.account(variables); });
  };
  EXPECT_TRUE(tests::holds(why({{"AWS_PROFILE", "none"}}), "AWS_PROFILE names 'none', which is neither in"));
  EXPECT_TRUE(tests::holds(why({{"AWS_ACCESS_KEY_ID", "x"}}), "has a key id without its secret"));
  EXPECT_TRUE(tests::holds(why({{"AWS_ENDPOINT_URL", "storage:9000"}}), "'storage:9000' is no URL"));
}

TEST(Profiles, OddFilesGiveWhatTheyHold) {
  EXPECT_TRUE(parse_profiles("key = outside\n[").contains(""));
  EXPECT_TRUE(parse_profiles("[a]\nnothing\n= \n").at("a").contains(""));
  EXPECT_TRUE(parse_profiles("").empty());
}

}  // namespace
}  // namespace lockstep::remote
