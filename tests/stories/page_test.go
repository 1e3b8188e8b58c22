package stories_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

// notRunList is the page that lists which commands the tests do not run.
const notRunList = "reference/commands-not-run"

// notRun returns the headings that the list has for a page in docs/.
func notRun(root, name string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", notRunList+".md"))
	var headings []string
	for _, row := range regexp.MustCompile(`(?m)^\| \[[^\]]*\]\(\.\./([^)#]+)\.md\) \| ([^|]+?) \|`).FindAllStringSubmatch(string(text), -1) {
		if row[1] == name {
			headings = append(headings, row[2])
		}
	}
	return headings, err
}

// commandsOf returns the commands to test of a page in docs/, by its headings: a block of sh has `<!-- tested -->`
// above it, or `<!-- not run -->` in a section that is listed as such.
func commandsOf(page string, listed []string) (map[string][]string, error) {
	runnable := map[string][]string{}
	for _, section := range regexp.MustCompile(`(?m)^## `).Split(page, -1) {
		heading, _, _ := strings.Cut(section, "\n")
		heading = strings.TrimPrefix(heading, "# ")
		blocks := regexp.MustCompile("(?ms)^(.*?)\n```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1)
		for _, block := range blocks {
			before := strings.Split(strings.TrimSpace(block[1]), "\n")
			switch last := before[len(before)-1]; {
			case last == "<!-- tested -->":
				runnable[heading] = append(runnable[heading], block[2])
			case last == "<!-- not run -->" && slices.Contains(listed, heading):
			default:
				return nil, fmt.Errorf("%s: mark these commands as tested, or as not run with a row in docs/%s.md:\n%s", heading, notRunList, block[2])
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
	listed, err := notRun(s.root, args[0])
	if err != nil {
		return err
	}
	sections, err := commandsOf(string(text), listed)
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
		"CLUSTER_NAME="+s.c.Cluster, "REGION="+s.c.Region, "ACCOUNT="+awssim.DefaultAccount, "PARTITION=aws", "FILES="+filepath.Join(s.dir, "files"),
		"CHARTS="+s.c.Charts.Repository, "IMAGE=registry.example.com/plumbline", "TAG=v1",
		"GIT_PROVIDER=gitea", "GIT_HOST=127.0.0.1", "GIT_URL="+s.repo.HTTPURL,
		"AWS_REGION="+s.c.Region, "GIT_USER="+s.c.Git.Admin.Name, "GIT_TOKEN="+s.c.Git.Admin.Token, "STATUS_TOKEN="+s.c.Git.Admin.Token,
		"FLEET="+s.fleet())
	out, err := cmd.CombinedOutput()
	ts.Logf("%s\n%s", script, out)
	if err != nil {
		return fmt.Errorf("a reader ran\n%s: %w", script, err)
	}
	return nil
}

// TestCommandsNotRun: each command that a page marks as not run is in the list, each section of the list exists, and no page
// says so elsewhere.
func TestCommandsNotRun(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join(root, "docs")
	err = filepath.WalkDir(docs, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(docs, strings.TrimSuffix(path, ".md"))
		if err != nil {
			return err
		}
		listed, err := notRun(root, filepath.ToSlash(name))
		if err != nil {
			return err
		}
		for _, heading := range listed {
			if !regexp.MustCompile(`(?m)^##? ` + regexp.QuoteMeta(heading) + `$`).Match(text) {
				t.Errorf("docs/%s.md lists %q of docs/%s.md, which has no such section", notRunList, heading, name)
			}
		}
		if strings.Contains(strings.ToLower(string(text)), "*not tested") {
			t.Errorf("docs/%s.md says what is not tested: list that in docs/%s.md", name, notRunList)
		}
		if strings.Contains(string(text), "<!-- not run -->") {
			if _, err := commandsOf(string(text), listed); err != nil {
				t.Errorf("docs/%s.md: %v", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
