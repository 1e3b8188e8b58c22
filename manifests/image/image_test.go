package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

var created = time.Unix(1700000000, 0).UTC()

// program builds a small program, which prints its arguments.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() { fmt.Println(\"plumbline\", os.Args[1:]) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "plumbline", "main.go")
	build.Dir, build.Env = dir, append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "plumbline")
}

// pulled pushes an image of two platforms to a registry, and pulls the one of this machine.
func pulled(t *testing.T, file string) v1.Image {
	t.Helper()
	host := httptest.NewServer(registry.New())
	t.Cleanup(host.Close)
	reference := strings.TrimPrefix(host.URL, "http://") + "/acme/plumbline:v1.2.3"
	given := binaries{"linux/amd64": file, "linux/arm64": file}
	if err := run(given, "v1.2.3", created, "", reference); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// TestTheImage: pulled from a registry, the image is what the Deployment expects, and its program runs.
func TestTheImage(t *testing.T) {
	image := pulled(t, program(t))
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != user || !cmp.Equal(config.Config.Entrypoint, []string{"/plumbline"}) || config.Architecture != runtime.GOARCH || len(config.RootFS.DiffIDs) != 2 {
		t.Errorf("%+v", config)
	}
	root, modes, found := t.TempDir(), map[string]string{}, mutate.Extract(image)
	defer func() { _ = found.Close() }()
	for files := tar.NewReader(found); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = fmt.Sprintf("%o %d", header.Mode, header.Uid)
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, filepath.Base(header.Name)), text, 0o700); header.Typeflag == tar.TypeReg && err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"etc": "755 0", "etc/group": "644 0", "etc/passwd": "644 0", "etc/ssl": "755 0", "etc/ssl/certs": "755 0", "etc/ssl/certs/ca-certificates.crt": "644 0",
		"home": "755 0", "home/nonroot": "755 65532", "tmp": "1777 0", "plumbline": "755 0",
	}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "plumbline"), "version").CombinedOutput()
	if err != nil || string(out) != "plumbline [version]\n" {
		t.Errorf("%v: %s", err, out)
	}
	authorities, err := os.ReadFile(filepath.Join(root, "ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(authorities, []byte("BEGIN CERTIFICATE")); !x509.NewCertPool().AppendCertsFromPEM(authorities) || n < 100 {
		t.Errorf("%d authorities of TLS", n)
	}
}

// TestTheArchive: it is a reproducible OCI layout with both platforms.
func TestTheArchive(t *testing.T) {
	given, file := binaries{}, program(t)
	for _, platform := range []string{"linux/amd64=", "linux/arm64="} {
		if err := given.Set(platform + file); err != nil {
			t.Fatal(err)
		}
	}
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(t.TempDir(), "image.tar")
		if err := run(given, "v1.2.3", created, out, ""); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same binaries differ")
	}
	folder := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "x", "-C", folder)
	unpack.Stdin = bytes.NewReader(archives[0])
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, image := range manifest.Manifests {
		platforms = append(platforms, image.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

func TestImagesThatAreNone(t *testing.T) {
	if err := (binaries{}).Set("amd64"); err == nil {
		t.Error("a binary without a platform was accepted")
	}
	for name, given := range map[string]binaries{"no binary": {}, "a file that is not there": {"linux/amd64": "/nowhere"}} {
		if err := run(given, "v1.2.3", created, "", ""); err == nil {
			t.Errorf("%s: an image was made", name)
		}
	}
}
