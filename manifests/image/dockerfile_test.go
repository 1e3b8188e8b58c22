package image

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/subrequests/lint"
	"github.com/opencontainers/go-digest"
)

// anyImage stands for every base image: the linter asks no registry.
type anyImage struct{}

// ResolveImageConfig returns the smallest config that there is.
func (anyImage) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config := []byte(`{"architecture":"amd64","os":"linux","config":{}}`)
	return ref, digest.FromBytes(config), config, nil
}

// warnings are what `docker build --check` would print.
func warnings(t *testing.T, dockerfile []byte) []string {
	t.Helper()
	source := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", dockerfile)
	source.Definition = &llb.Definition{} // the linter goes through it
	results, err := dockerfile2llb.DockerfileLint(t.Context(), dockerfile, dockerfile2llb.ConvertOpt{
		SourceMap:    source,
		MetaResolver: anyImage{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if results.Error != nil {
		t.Fatalf("the linter cannot read it: %s", results.Error.Message)
	}
	var found []string
	for _, w := range results.Warnings {
		found = append(found, describe(w))
	}
	return found
}

func describe(w lint.Warning) string { return fmt.Sprintf("%s: %s", w.RuleName, w.Detail) }

func TestTheDockerfileIsClean(t *testing.T) {
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range warnings(t, dockerfile) {
		t.Error(warning)
	}
}

func TestTheLinterSpeaks(t *testing.T) {
	found := warnings(t, []byte("from scratch AS Build\nMAINTAINER me\nENTRYPOINT /plumbline\n"))
	if len(found) < 3 {
		t.Errorf("a Dockerfile with three faults has warnings %q", found)
	}
}
