package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// TestSetVersion: one place changes, and no other byte.
func TestSetVersion(t *testing.T) {
	head := "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: demo, region: eu-west-1}\n"
	for name, text := range map[string]string{
		"plain":              head + "version: 1.8.6\n",
		"no newline at end":  head + "version: 1.8.6",
		"comments around it": "# version: 1.8.6\n" + head + "\n# before\nversion:   1.8.6   # 1.8.6 it is\n\n# after\n",
		"single quotes":      head + "version: '1.8.6'\n",
		"double quotes":      head + "version: \"1.8.6\"\t# why\n",
		"another version":    head + "values: {image: {version: 1.8.7}, note: \"version: 1.8.7\"}\nversion: 1.8.6\nsubstitute: {version: 1.8.7}\n",
		"a byte order mark":  "\ufeff" + head + "version: 1.8.6\n",
		"windows":            strings.ReplaceAll("# ä\n"+head+"version: 1.8.6\nnodes: [a]\n", "\n", "\r\n"),
		"in a flow":          "{apiVersion: config.plumbline.dev/v1alpha1, kind: Karpenter, substitute: {A: \"ü€𝄞\"}, version: 1.8.6, cluster: {name: demo, region: eu-west-1}}\n",
		"its own document":   "---\n" + head + "version: 1.8.6\n...\n",
		"on the next line":   head + "version:\n  1.8.6\n",
		"an odd order":       "version: 1.8.6\n" + head,
		"tabs and blanks":    head + "version: 1.8.6 \t\nvalues:\n    replicas:   2\n\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render.SetVersion("plumbline.yaml", []byte(text), "1.14.1")
			if err != nil {
				t.Fatal(err)
			}
			// The only 1.8.6 outside of comments.
			at := strings.Index(text, "1.8.6")
			if strings.HasPrefix(text, "# version") {
				at = strings.Index(text, "   1.8.6   ") + 3
			}
			want := text[:at] + "1.14.1" + text[at+len("1.8.6"):]
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetVersionRefuses(t *testing.T) {
	head := "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: demo, region: eu-west-1}\n"
	byHand := "plumbline.yaml:4: version is not written as plain text on one line: change it by hand"
	for name, tc := range map[string]struct{ text, version, says string }{
		"external":     {head + "management: External\n", "1.14.1", "plumbline.yaml:1: version is not there"},
		"an anchor":    {head + "version: &v 1.8.6\nsubstitute: {V: *v}\n", "1.14.1", byHand},
		"after a mark": {"\ufeffversion: 1.8.6\n" + head, "1.14.1", "plumbline.yaml:1: version is not written as plain text on one line: change it by hand"},
		"a tag":        {head + "version: !!str 1.8.6\n", "1.14.1", byHand},
		"a block":      {head + "version: >-\n  1.8.6\n", "1.14.1", byHand},
		"an escape":    {head + "version: \"1.8\\x2e6\"\n", "1.14.1", byHand},
		"broken":       {head + "version: [\n", "1.14.1", "plumbline.yaml:4: not YAML"},
		"no version":   {head + "version: 1.8.6\n", "newest", `plumbline.yaml:4: version is "newest"`},
		"two of them":  {head + "version: 1.8.6\n---\n" + head, "1.14.1", "plumbline.yaml: it holds 2 documents"},
		"an old error": {head + "version: 1.8.6\nnode: []\n", "1.14.1", `plumbline.yaml:5: unknown field "node"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render.SetVersion("plumbline.yaml", []byte(tc.text), tc.version)
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
