package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packedChart returns a chart of 1.14.1 with one template.
func packedChart(t *testing.T, name, template string) []byte {
	t.Helper()
	return packedChartOf(t, "1.14.1", name, template)
}

func packedChartOf(t *testing.T, version, name, template string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for _, file := range [][2]string{{"Chart.yaml", "apiVersion: v2\nname: " + name + "\nversion: " + version + "\n"}, {"templates/a.yaml", template}} {
		if err := packed.WriteHeader(&tar.Header{Name: name + "/" + file[0], Mode: 0o644, Size: int64(len(file[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := packed.Write([]byte(file[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// helmRepository serves both charts to ada, who has logged in with docker login.
func helmRepository(t *testing.T) (url string, archives map[string][]byte) {
	t.Helper()
	archives = map[string][]byte{
		"karpenter-crd-1.14.1.tgz": packedChart(t, "karpenter-crd", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nodepools.karpenter.sh}
spec: {group: karpenter.sh, names: {plural: nodepools}}
`),
		"karpenter-1.14.1.tgz": packedChart(t, "karpenter", "kind: Deployment\n"),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		switch _, password, _ := r.BasicAuth(); {
		case password != "s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		case name == "index.yaml":
			_, _ = w.Write([]byte("entries:\n  karpenter-crd: [{version: 1.14.1, urls: [karpenter-crd-1.14.1.tgz]}]\n  karpenter: [{version: 1.14.1, urls: [karpenter-1.14.1.tgz]}]\n"))
		default:
			_, _ = w.Write(archives[name])
		}
	}))
	t.Cleanup(server.Close)
	login := t.TempDir()
	t.Setenv("DOCKER_CONFIG", login)
	config := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, strings.TrimPrefix(server.URL, "http://"), base64.StdEncoding.EncodeToString([]byte("ada:s3cret")))
	if err := os.WriteFile(filepath.Join(login, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, archives
}

// checkout creates a repository with a plumbline.yaml at clusters/prod.
func checkout(t *testing.T, text string) (root, file string) {
	t.Helper()
	root = t.TempDir()
	file = filepath.Join(root, "clusters", "prod", "plumbline.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return root, file
}

const vendorable = "# our fleet\napiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: prod, region: eu-west-1}\nversion: 1.14.1   # since May\nrepository: %s # upstream\n"

func TestVendor(t *testing.T) {
	url, archives := helmRepository(t)
	root, file := checkout(t, fmt.Sprintf(vendorable, url))
	folder := filepath.Dir(file)
	digest := func(name string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(archives[name])) }
	crd, controller := digest("karpenter-crd-1.14.1.tgz"), digest("karpenter-1.14.1.tgz")

	got := plumbline(t, "vendor", folder)
	wants := "\nrepository: ./charts\ndigests:\n  karpenter-crd: " + crd + "\n  karpenter: " + controller + "\n"
	allows := "\nspec: {charts: {allow: {repositories: [./charts], digests: [" + crd + ", " + controller + "]}}}\n"
	if got.code != exitDone || !strings.Contains(got.out, wants) || !strings.HasSuffix(got.out, allows) || strings.Count(got.out, crd) != 3 {
		t.Errorf("code %d, prints %s, says %s", got.code, got.out, got.err)
	}
	for name, want := range archives {
		if written, err := os.ReadFile(filepath.Join(folder, "charts", name)); err != nil || !bytes.Equal(written, want) {
			t.Errorf("%s: %d bytes, %v; want the %d of the repository", name, len(written), err, len(want))
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != fmt.Sprintf(vendorable, url) {
		t.Errorf("without --write plumbline.yaml became %s (%v)", text, err)
	}

	got = plumbline(t, "vendor", folder, "--write", "--to", filepath.Join(root, "charts"), "-o", "json")
	var report vendorReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitDone || !report.Written || report.Repository != "../../charts" {
		t.Errorf("code %d, %v, prints %s, says %s", got.code, err, got.out, got.err)
	}
	want := strings.Replace(fmt.Sprintf(vendorable, "../../charts"), "# upstream\n", "# upstream\ndigests:\n  karpenter-crd: "+crd+"\n  karpenter: "+controller+"\n", 1)
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, string(text)))
	}

	// If the charts are already in a folder, --from tells where to pull them from.
	got = plumbline(t, "vendor", folder, "--write", "--from", url)
	text, err := os.ReadFile(file)
	if again := strings.Replace(want, "../../charts", "./charts", 1); got.code != exitDone || err != nil || string(text) != again {
		t.Errorf("again: code %d, says %s, %v (-want +got):\n%s", got.code, got.err, err, cmp.Diff(again, string(text)))
	}
}

func TestVendorRefuses(t *testing.T) {
	url, _ := helmRepository(t)
	external := strings.Replace(vendorable, "version: 1.14.1   # since May\nrepository: %s # upstream\n", "management: External\n", 1)
	for name, c := range map[string]struct {
		text string
		args []string
		says string
	}{
		"not ours to install":   {external, nil, "management is External"},
		"outside":               {fmt.Sprintf(vendorable, url), []string{"--to", "/tmp"}, "--to /tmp is outside of the repository"},
		"a wrong pin":           {fmt.Sprintf(vendorable, url) + "digests: {karpenter: 'sha256:" + strings.Repeat("0", 64) + "'}\n", nil, "digests.karpenter in plumbline.yaml pins sha256:000"},
		"another version":       {strings.Replace(fmt.Sprintf(vendorable, url), "1.14.1", "1.14.2", 1), nil, "the nearest versions are 1.14.1"},
		"no authorities":        {fmt.Sprintf(vendorable, url), []string{"--ca-file", "absent"}, "read --ca-file"},
		"no plumbline.yaml":     {"", nil, "plumbline.yaml"},
		"a file of other forms": {"{apiVersion: config.plumbline.dev/v1alpha1, kind: Karpenter, cluster: {name: prod, region: eu-west-1},\n version: 1.14.1, repository: &r\n   " + url + "}\n", []string{"--write"}, "repository is not written as plain text on one line"},
	} {
		t.Run(name, func(t *testing.T) {
			_, file := checkout(t, c.text)
			got := plumbline(t, append([]string{"vendor", filepath.Dir(file)}, c.args...)...)
			if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, c.says) || strings.Contains(got.err, "s3cret") {
				t.Errorf("code %d, prints %q, says %q", got.code, got.out, got.err)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != c.text {
				t.Errorf("plumbline.yaml became %q (%v)", text, err)
			}
		})
	}
}
