package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// binaries are files by platform.
type binaries map[string]string

// String implements flag.Value.
func (b binaries) String() string { return fmt.Sprint(map[string]string(b)) }

// Set implements flag.Value: linux/amd64=FILE.
func (b binaries) Set(text string) error {
	platform, file, found := strings.Cut(text, "=")
	if !found || !strings.Contains(platform, "/") {
		return fmt.Errorf("want PLATFORM=FILE, such as linux/amd64=plumbline")
	}
	b[platform] = file
	return nil
}

func main() {
	given := binaries{}
	version := flag.String("version", "", "version of the image")
	created := flag.Int64("created", 0, "time of the commit, in seconds since 1970")
	out := flag.String("out", "", "archive to write")
	push := flag.String("push", "", "reference to push to")
	flag.Var(given, "binary", "PLATFORM=FILE, once for each platform")
	flag.Parse()
	if err := run(given, *version, time.Unix(*created, 0).UTC(), *out, *push); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(given binaries, version string, created time.Time, out, push string) error {
	index, err := makeIndex(given, version, created)
	if err != nil {
		return err
	}
	if out != "" {
		if err := archive(index, created, out); err != nil {
			return fmt.Errorf("write %s: %w", out, err)
		}
	}
	if push == "" {
		return nil
	}
	return pushTo(index, push)
}

// pushTo sends an image to a registry, and prints its reference with the digest.
func pushTo(index v1.ImageIndex, push string) error {
	reference, err := name.ParseReference(push)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(reference, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push to %s: %w", push, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(reference.Context().Digest(digest.String()))
	return nil
}
