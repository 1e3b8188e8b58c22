package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user of the program, as in the Deployment.
const user = "65532:65532"

// makeIndex builds the images of all platforms, and their index.
func makeIndex(given binaries, version string, created time.Time) (v1.ImageIndex, error) {
	if len(given) == 0 || version == "" {
		return nil, fmt.Errorf("want a version, and a binary for each platform")
	}
	notes := map[string]string{
		"org.opencontainers.image.title":    "plumbline",
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.source":   "https://github.com/plumbline-dev/plumbline",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.created":  created.Format(time.RFC3339),
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range slices.Sorted(maps.Keys(given)) {
		program, err := os.ReadFile(given[platform])
		if err != nil {
			return nil, err
		}
		system, architecture, _ := strings.Cut(platform, "/")
		image, err := makeImage(program, v1.Platform{OS: system, Architecture: architecture}, notes, created)
		if err != nil {
			return nil, fmt.Errorf("make the image for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: system, Architecture: architecture}},
		})
	}
	return mutate.Annotations(index, notes).(v1.ImageIndex), nil
}

// makeImage builds the image of one platform: a layer that seldom changes, and the program.
func makeImage(program []byte, platform v1.Platform, notes map[string]string, created time.Time) (v1.Image, error) {
	authorities, err := authorities()
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]file{
		{
			{name: "etc/"},
			{name: "etc/group", text: []byte("root:x:0:\nnonroot:x:65532:\n")},
			{name: "etc/passwd", text: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
			{name: "etc/ssl/"},
			{name: "etc/ssl/certs/"},
			{name: "etc/ssl/certs/ca-certificates.crt", text: authorities},
			{name: "home/"},
			{name: "home/nonroot/", owner: 65532},
			{name: "tmp/", mode: 0o1777},
		},
		{{name: "plumbline", text: program, mode: 0o755}},
	} {
		layer, err := layerOf(files, created)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "plumbline's manifests/image"}}); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: created}
	config.Config = v1.Config{
		User: user, Entrypoint: []string{"/plumbline"}, WorkingDir: "/", Labels: notes, Env: []string{"HOME=/home/nonroot"},
	}
	return mutate.ConfigFile(image, config)
}
