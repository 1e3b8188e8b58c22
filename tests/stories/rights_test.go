package stories_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

// rightsFile lists the permissions that the daemon uses, each with a story that uses it. manifests compares it with what
// the roles grant.
var rightsFile = filepath.Join("testdata", "rights.txt")

var recordRights = flag.Bool("rights", false, "add the permissions that these stories use, and that no other one does, to "+rightsFile)

// right is a permission of the daemon: a verb on a resource in one namespace, or in all of them, which is *.
type right struct{ verb, resource, namespace string }

// String returns the permission as "list pods *".
func (r right) String() string { return r.verb + " " + r.resource + " " + r.namespace }

// rightOf returns the permission that a request needs; false for a request without a resource.
func rightOf(r kube.Request) (of right, ok bool) {
	if r.User != itself || r.Resource == "" || r.Code == http.StatusForbidden {
		return right{}, false
	}
	of = right{verb: r.Verb, resource: r.Resource, namespace: r.Namespace}
	if r.Group != "" {
		of.resource += "." + r.Group
	}
	if r.Subresource != "" {
		of.resource += "/" + r.Subresource
	}
	if of.namespace == "" {
		of.namespace = "*"
	}
	return of, true
}

// rightsUsed returns the permissions that the daemon has used since a byte of the audit log.
func (c *cluster) rightsUsed(from int64) (map[right]bool, error) {
	requests, _, err := c.Kube.Audit(from)
	used := map[right]bool{}
	for _, r := range requests {
		if of, ok := rightOf(r); ok {
			used[of] = true
		}
	}
	return used, err
}

// readRights returns the listed permissions, and the story that uses each.
func readRights() (map[right]string, error) {
	text, err := os.ReadFile(rightsFile)
	if err != nil {
		return nil, err
	}
	listed := map[right]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s: %q has %d fields, want 4", rightsFile, lines.Text(), len(fields))
		}
		listed[right{fields[0], fields[1], fields[2]}] = fields[3]
	}
	return listed, nil
}

// checkRights checks that a story uses the permissions that the list assigns to it.
func (s *story) checkRights(t *testing.T) {
	used, err := s.c.rightsUsed(s.audited)
	if err != nil {
		t.Error(err)
		return
	}
	listed, err := readRights()
	if err != nil {
		t.Error(err)
		return
	}
	if *recordRights {
		if err := writeRights(listed, used, s.name); err != nil {
			t.Error(err)
		}
		return
	}
	for _, of := range slices.SortedFunc(maps.Keys(listed), func(a, b right) int { return strings.Compare(a.String(), b.String()) }) {
		if listed[of] == s.name && !used[of] {
			t.Errorf("%s lists %q as used by %s, which does not use it any more: remove the line, and the rule of the role if no other story uses it", rightsFile, of, s.name)
		}
	}
}

// writeRights replaces the lines of a story with the permissions that it uses and no other line contains.
func writeRights(listed map[right]string, used map[right]bool, story string) error {
	maps.DeleteFunc(listed, func(of right, by string) bool { return by == story && !used[of] })
	for of := range used {
		if listed[of] == "" {
			listed[of] = story
		}
	}
	lines := []string{"# VERB RESOURCE NAMESPACE STORY: what the daemon uses, and one story that uses it; -rights adds lines. * is all namespaces, or none."}
	for _, of := range slices.SortedFunc(maps.Keys(listed), func(a, b right) int {
		return strings.Compare(a.resource+" "+a.String(), b.resource+" "+b.String())
	}) {
		lines = append(lines, of.String()+" "+listed[of])
	}
	return os.WriteFile(rightsFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}
