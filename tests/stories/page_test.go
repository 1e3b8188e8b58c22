package stories_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

// commandsOf returns the commands to test of a page in docs/, by its headings: a block of sh has `<!-- tested -->`
// above it, or `<!-- not tested -->` below a text that tells readers so.
func commandsOf(page string) (map[string][]string, error) {
	runnable := map[string][]string{}
	for _, section := range regexp.MustCompile(`(?m)^## `).Split(page, -1) {
		heading, _, _ := strings.Cut(section, "\n")
		blocks := regexp.MustCompile("(?ms)^(.*?)\n```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1)
		for _, block := range blocks {
			before := strings.Split(strings.TrimSpace(block[1]), "\n")
			switch last := before[len(before)-1]; {
			case last == "<!-- tested -->":
				runnable[heading] = append(runnable[heading], block[2])
			case last == "<!-- not tested -->" && strings.Contains(strings.ToLower(block[1]), "*not tested"):
			default:
				return nil, fmt.Errorf("%s: mark these commands as tested, or say above them that they are *not tested*:\n%s", heading, block[2])
			}
		}
	}
	return runnable, nil
}

// pageCommand is `page NAME HEADING…`: it runs the commands below these headings of docs/NAME.md; without a heading it
// checks that none is left, except those that another story runs.
func (s *story) pageCommand(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: page NAME [HEADING…], page NAME but HEADING…")
	}
	text, err := os.ReadFile(filepath.Join(s.root, "docs", args[0]+".md"))
	if err != nil {
		return err
	}
	sections, err := commandsOf(string(text))
	if err != nil {
		return err
	}
	if len(args) > 1 && args[1] == "but" {
		s.followed, args = append(s.followed, args[2:]...), args[:1]
	}
	for _, heading := range args[1:] {
		if len(sections[heading]) == 0 {
			return fmt.Errorf("docs/%s.md has no command to run below %q", args[0], heading)
		}
		for _, script := range sections[heading] {
			if err := s.reader(ts, script); err != nil {
				return err
			}
		}
		s.followed = append(s.followed, heading)
	}
	for heading := range sections {
		if len(args) == 1 && !slices.Contains(s.followed, heading) {
			return fmt.Errorf("nobody has followed %q in docs/%s.md", heading, args[0])
		}
	}
	return nil
}

// reader runs commands as a user who has set the variables of the page's first block.
func (s *story) reader(ts *testscript.TestScript, script string) error {
	cmd := exec.CommandContext(s.ctx, "bash", "-eu", "-o", "pipefail", "-c", script)
	cmd.Dir = s.root
	cmd.Env = append(append(s.c.Environment(), s.repo.Environment()...),
		"KUBECONFIG="+s.c.Kube.Kubeconfig, "PATH="+s.c.Bin()+":"+filepath.Dir(daemon.Binary(s.root))+":"+repository.Path,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+s.repo.As(s.c.Git.Admin)+".insteadOf", "GIT_CONFIG_VALUE_0="+s.repo.HTTPURL,
		"CLUSTER_NAME="+s.c.Cluster, "REGION="+s.c.Region, "CHARTS="+s.c.Charts.Repository, "IMAGE=registry.example.com/plumbline", "TAG=v1",
		"GIT_PROVIDER=gitea", "GIT_HOST=127.0.0.1", "GIT_URL="+s.repo.HTTPURL,
		"AWS_REGION="+s.c.Region, "GIT_USER="+s.c.Git.Admin.Name, "GIT_TOKEN="+s.c.Git.Admin.Token, "STATUS_TOKEN="+s.c.Git.Admin.Token,
		"FLEET="+filepath.Join(s.dir, "fleet"))
	out, err := cmd.CombinedOutput()
	ts.Logf("%s\n%s", script, out)
	if err != nil {
		return fmt.Errorf("a reader ran\n%s: %w", script, err)
	}
	return nil
}
