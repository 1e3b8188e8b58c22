package allowance

import (
	"errors"
	"strings"
	"testing"
)

// TestImagesOfAnotherVersion: what the NodeSync says of versions holds for the program, and
// not only for what a chart calls itself.
func TestImagesOfAnotherVersion(t *testing.T) {
	const tag, byDigest, noDigest = "another version than its chart's", "names its image by digest", "by a digest that is none"
	real256 := "sha256:" + strings.Repeat("0a", 32)
	real := realChart(t, nil)
	for name, c := range map[string]struct {
		allow       Allowance
		chart, name string
		inGit       bool
		want        string
	}{
		"the same version":                      {Allowance{}, "1.14.1", ":1.14.1@" + real256, false, ""},
		"as charts were before 0.35":            {Allowance{}, "v0.32.1", ":v0.32.1", false, ""},
		"a v on the image's":                    {Allowance{}, "1.14.1", ":v1.14.1", true, tag},
		"a v on the chart's":                    {Allowance{}, "v1.14.1", ":1.14.1", true, tag},
		"a digest that is cut off":              {Allowance{}, "1.14.1", ":1.14.1@sha256:00", false, noDigest},
		"a digest in capitals":                  {Allowance{}, "1.14.1", ":1.14.1@" + strings.ToUpper(real256), true, noDigest},
		"a digest of another algorithm":         {Allowance{}, "1.14.1", ":1.14.1@md5:" + strings.Repeat("0a", 16), true, noDigest},
		"an empty digest":                       {Allowance{}, "1.14.1", ":1.14.1@", true, noDigest},
		"two digests":                           {Allowance{}, "1.14.1", ":1.14.1@" + real256 + "@" + real256, true, noDigest},
		"a cut digest in a chart that is named": {Allowance{Digests: []string{"sha256:aa"}}, "1.14.1", ":1.14.1@sha256:00", true, noDigest},
		"an earlier one":                        {Allowance{}, "1.14.1", ":1.13.0@" + real256, true, tag},
		"no tag":                                {Allowance{}, "1.14.1", "", false, "has no tag"},
		"no tag that NodeSyncs may allow":       {Allowance{Values: []string{"controller.image.tag"}}, "1.14.1", "@" + real256, false, ""},
		"a chart whose digest is named":         {Allowance{Digests: []string{"sha256:aa"}}, "1.14.1", ":1.13.0@" + real256, true, ""},
		"in Git, by digest, any version":        {Allowance{}, "1.14.1", ":1.14.1@" + real256, true, ""},
		"in Git, by digest, some versions":      {Allowance{Versions: ">=1.14"}, "1.14.1", ":1.14.1@" + real256, true, byDigest},
		"in Git, by tag, some versions":         {Allowance{Versions: ">=1.14"}, "1.14.1", ":1.14.1", true, ""},
		"published, by digest, some versions":   {Allowance{Versions: ">=1.14"}, "1.14.1", ":1.14.1@" + real256, false, ""},
		"in Git, some versions, digests named":  {Allowance{Versions: ">=1.14", Digests: []string{"sha256:aa"}}, "1.14.1", ":1.14.1@" + real256, true, ""},
		"a value that is allowed opens no more": {Allowance{Versions: ">=1.14", Values: []string{"controller.image.tag"}}, "1.14.1", ":1.13.0@" + real256, true, byDigest},
	} {
		t.Run(name, func(t *testing.T) {
			objects := patched(t, real, "Deployment karpenter", "[{op: add, path: /spec/template/spec/containers/0/image, value: '"+publicImage+c.name+"'}]")
			err := Refuse(c.allow.CheckObjects(Rendered{Namespace: "kube-system", Version: c.chart, Digest: "sha256:aa", InGit: c.inGit, Objects: objects}))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused: %v, want %q", err, c.want)
			}
			var refused *RefusedError
			if errors.As(err, &refused) && refused.OnlyGit() {
				t.Error("what a chart renders to is taken for words of Git")
			}
		})
	}
}
