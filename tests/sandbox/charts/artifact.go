package charts

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// The media types of a chart in an OCI registry: https://helm.sh/docs/topics/registries/#helm-chart-manifest
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.cncf.helm.config.v1+json"
	contentType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// artifact is a chart as stored in a registry: two blobs and a manifest that references them.
type artifact struct {
	Manifest, Config, Content []byte
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

// newArtifact omits the creation time that Helm would record, which would change the digest in every run.
func newArtifact(c *chart) (*artifact, error) {
	config, err := c.metadata()
	if err != nil {
		return nil, err
	}

	content, err := c.archive()
	if err != nil {
		return nil, err
	}

	encoded, err := json.Marshal(manifest{
		SchemaVersion: 2,
		MediaType:     manifestType,
		Config:        describe(configType, config),
		Layers:        []descriptor{describe(contentType, content)},
		Annotations: map[string]string{
			"org.opencontainers.image.title":   c.Name,
			"org.opencontainers.image.version": c.Version,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of chart %s %s: %w", c.Name, c.Version, err)
	}

	return &artifact{Manifest: encoded, Config: config, Content: content}, nil
}

func describe(mediaType string, blob []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(blob), Size: len(blob)}
}

func digest(blob []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(blob)) }
