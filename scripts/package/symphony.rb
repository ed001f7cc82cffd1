class Symphony < Formula
  desc "Lets coding agents work through your backlog"
  homepage "https://@MODULE@"
  version "@NUMBER@"
  license "Apache-2.0"

  def install
    bin.install "symphony"
    man1.install "man/man1/symphony.1"
    man5.install "man/man5/symphony-workflow.5"
    bash_completion.install "completions/symphony.bash" => "symphony"
    zsh_completion.install "completions/_symphony"
    fish_completion.install "completions/symphony.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/symphony version")
  end
