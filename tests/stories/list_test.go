package stories_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	listFile   = "stories.txt"
	scriptsDir = "testdata/scripts"
	// maxTold is the maximum number of stories in `make test`.
	maxTold = 45
)

// entry is a line of the list of stories.
type entry struct {
	name   string
	full   bool // only with PLUMBLINE_FULL=1
	group  string
	ground groundKind
}

// groundKind is the state of a cluster before its first story.
type groundKind struct {
	installed  bool   // another tool has installed Karpenter
	bare       bool   // neither plumbline nor anything in AWS was prepared
	kubernetes string // the minor version that it serves; if empty, the sandbox's default
}

// parseGround parses empty, bare or installed, optionally followed by -VERSION.
func parseGround(word string) (groundKind, error) {
	state, version, _ := strings.Cut(word, "-")
	if state != "empty" && state != "bare" && state != "installed" {
		return groundKind{}, fmt.Errorf("want empty, bare or installed, and perhaps the version of Kubernetes as in empty-1.33: %q", word)
	}
	return groundKind{installed: state == "installed", bare: state == "bare", kubernetes: version}, nil
}

func (e entry) script() string { return filepath.Join(scriptsDir, e.name+".txtar") }

// sharesClusterWith reports whether a story continues with the cluster of the one before it.
func (e entry) sharesClusterWith(before entry) bool {
	return e.group == before.group && e.ground == before.ground
}

// groups returns the stories that are adjacent in the list and share a cluster.
func groups(entries []entry) [][]entry {
	var all [][]entry
	for i, e := range entries {
		if i == 0 || !e.sharesClusterWith(entries[i-1]) {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], e)
	}
	return all
}

func readList() ([]entry, error) {
	file, err := os.Open(listFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var entries []entry
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 4 || !slices.Contains([]string{"test", "full"}, words[1]) {
			return nil, fmt.Errorf("%s:%d: want name, test or full, group, cluster: %q", listFile, number, lines.Text())
		}
		kind, err := parseGround(words[3])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", listFile, number, err)
		}
		entries = append(entries, entry{name: words[0], full: words[1] == "full", group: words[2], ground: kind})
	}
	return entries, lines.Err()
}

// TestList checks that each script is in the list once, starts with a comment on what the user does and sees, and ends
// with a check of what is left in AWS.
func TestList(t *testing.T) {
	entries, err := readList()
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	told := 0
	for _, e := range entries {
		listed = append(listed, e.script())
		if !e.full {
			told++
		}
	}
	if told > maxTold {
		t.Errorf("%d stories are told by make test, want %d at most: make some `full`", told, maxTold)
	}
	scripts, err := filepath.Glob(filepath.Join(scriptsDir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(listed)
	if diff := cmp.Diff(scripts, listed); diff != "" {
		t.Errorf("scripts that are not in %s once (-scripts +list):\n%s", listFile, diff)
	}
	for _, path := range scripts {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		commands, _, _ := strings.Cut(string(data), "\n-- ")
		lines := strings.Split(strings.TrimSpace(commands), "\n")
		if !strings.HasPrefix(lines[0], "# ") {
			t.Errorf("%s: does not begin with what the user does and sees", path)
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "ec2 ") {
			t.Errorf("%s: its last line does not ask what is left in AWS: %s", path, last)
		}
	}
}

// TestPeersAreBuilt checks that `make test` builds exactly the peers that its stories start, before the stories run:
// there the progress is visible and no story waits for a build.
func TestPeersAreBuilt(t *testing.T) {
	programs := map[string][]string{"flux": {"source-controller", "kustomize-controller"}}
	entries, err := readList()
	if err != nil {
		t.Fatal(err)
	}
	var started []string
	for _, e := range entries {
		if e.full {
			continue
		}
		script, err := os.ReadFile(e.script())
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range regexp.MustCompile(`(?m)^(flux|helm-controller|notification-controller|argocd|argocd-notifications) start$`).FindAllStringSubmatch(string(script), -1) {
			if names, several := programs[said[1]]; several {
				started = append(started, names...)
			} else {
				started = append(started, said[1])
			}
		}
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	built := regexp.MustCompile(`(?m)^STORY_PEERS := (.*)$`).FindStringSubmatch(string(makefile))
	if built == nil || !strings.Contains(string(makefile), "plumbline-steps $(STORY_PEERS)") {
		t.Fatal("the Makefile's test builds no STORY_PEERS")
	}
	want := strings.Fields(built[1])
	slices.Sort(want)
	slices.Sort(started)
	if diff := cmp.Diff(want, slices.Compact(started)); diff != "" {
		t.Errorf("peers of tier test (-Makefile's STORY_PEERS +stories):\n%s", diff)
	}
}
