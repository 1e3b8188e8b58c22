package githost

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStartSaysWhatTheProcessSaid(t *testing.T) {
	starts := 0
	_, err := Start(t.Context(), Options{
		Binary: "gitea", ModuleDir: "../bin/gitea", Dir: t.TempDir(),
		Command: func(ctx context.Context, _ string, _ ...string) *exec.Cmd {
			starts++
			return exec.CommandContext(ctx, "sh", "-c", "echo listen: address already in use; exit 1")
		},
	})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %v, want the process's last words", err)
	}
	if starts != startAttempts {
		t.Errorf("%d starts, want %d: a port may have been taken by someone else", starts, startAttempts)
	}
}

func TestCleanEnv(t *testing.T) {
	got := cleanEnv([]string{"PATH=/bin", "GIT_DIR=/x", "GITEA_WORK_DIR=/y", "SSH_AUTH_SOCK=/z", "TERM=dumb"})
	if diff := cmp.Diff([]string{"PATH=/bin", "TERM=dumb"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}
