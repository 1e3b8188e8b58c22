package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAnotherVersion: with a version of Karpenter other than the embedded one, render needs its CRDs, and plan pulls
// them with its chart, or reports that fields are not checked.
func TestAnotherVersion(t *testing.T) {
	strict := strings.Replace(looseCRD, "x-kubernetes-preserve-unknown-fields: true", "properties: {role: {type: integer}}", 1)
	for name, c := range map[string]struct {
		command, crd string
		code         int
		says         string
	}{
		"render":                {"render", looseCRD, exitFailed, "not validated against 1.13.0: provide its CRDs with --crds DIR"},
		"pulled":                {"plan", looseCRD, exitChanges, ""},
		"pulled, and it is not": {"plan", strict, exitFailed, "EC2NodeClass/default: spec.role: Invalid value"},
		"out of reach":          {"plan", "", exitChanges, "warning: the CRDs of Karpenter 1.13.0 are unavailable, so fields of definitions are not validated; provide them with --crds DIR"},
		"out of reach, a diff":  {"diff", "", exitChanges, "warning: the CRDs of Karpenter 1.13.0 are unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DOCKER_CONFIG", t.TempDir())
			got := plumbline(t, c.command, folder(t, map[string]string{
				"plumbline.yaml": strings.Replace(karpenterYAML, "1.14.3", "1.13.0", 1) + "repository: " + chartsWith(t, c.crd) + "\n", "a.yaml": classYAML,
			}))
			if said := got.out + got.err; got.code != c.code || !strings.Contains(said, c.says) || c.says == "" && strings.Contains(said, "warning") {
				t.Errorf("code %d, says %s", got.code, said)
			}
		})
	}
}

// chartsWith starts a repository with a CRD in the chart of 1.13.0; with an empty crd, none responds.
func chartsWith(t *testing.T, crd string) string {
	t.Helper()
	packed, index := map[string][]byte{}, "apiVersion: v1\nentries:\n"
	for name, template := range map[string]string{"karpenter-crd": crd, "karpenter": "kind: Deployment\n"} {
		packed["/"+name+"-1.13.0.tgz"] = packedChartOf(t, "1.13.0", name, template)
		index += "  " + name + ":\n  - {name: " + name + ", version: 1.13.0, urls: [" + name + "-1.13.0.tgz]}\n"
	}
	packed["/index.yaml"] = []byte(index)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := w.Write(packed[r.URL.Path]); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	if crd == "" {
		server.Close()
	}
	return server.URL
}

// TestExitCodeOfChanges: --exit-code works like git's flag.
func TestExitCodeOfChanges(t *testing.T) {
	basic := examples(t)["basic"]
	for _, command := range []string{"plan", "diff"} {
		for flag, want := range map[string]int{"--exit-code": exitChanges, "--exit-code=false": exitDone} {
			if got := plumbline(t, command, basic, flag); got.code != want || got.out == "" {
				t.Errorf("%s %s: code %d, want %d, says %s", command, flag, got.code, want, got.err)
			}
		}
		if got := plumbline(t, command, t.TempDir(), "--exit-code=false"); got.code != exitFailed {
			t.Errorf("%s of nothing: code %d", command, got.code)
		}
	}
}
