package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/internal/markdown"
)

// TestPagesLeaveGitsConfigurationAlone: commands in documents do not change the reader's Git configuration.
func TestPagesLeaveGitsConfigurationAlone(t *testing.T) {
	all, err := markdown.All("../..")
	if err != nil {
		t.Fatal(err)
	}
	for file, document := range all {
		for _, block := range document.Blocks {
			for _, word := range []string{"config --global", ".git-credentials", ".gitconfig"} {
				if strings.Contains(block.Text, word) {
					t.Errorf("%s:%d: %s", file, block.Line, word)
				}
			}
		}
	}
}

// TestTheTutorialsTokenReachesGit: it does in the tutorial's terminal.
func TestTheTutorialsTokenReachesGit(t *testing.T) {
	all, err := markdown.All("../..")
	if err != nil {
		t.Fatal(err)
	}
	var exports strings.Builder
	for _, block := range all["docs/tutorial.md"].Blocks {
		for line := range strings.Lines(block.Text) {
			if strings.HasPrefix(line, "export GIT_CONFIG") {
				exports.WriteString(line)
			}
		}
	}
	run := exec.CommandContext(t.Context(), "bash", "-c", exports.String()+"git ls-remote --get-url $SANDBOX_GIT_URL/me/fleet.git")
	run.Env = append(run.Environ(), "SANDBOX_GIT_URL=http://127.0.0.1:3000", "SANDBOX_GIT_USER=me", "SANDBOX_GIT_TOKEN=s3cret")
	if got, err := run.CombinedOutput(); err != nil || string(got) != "http://me:s3cret@127.0.0.1:3000/me/fleet.git\n" {
		t.Errorf("%v: %s", err, got)
	}
}
