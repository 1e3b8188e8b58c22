package charts

import (
	"context"
	"encoding/json"
	"fmt"
)

// The media types of what Flux's CLI pushes: https://fluxcd.io/flux/cheatsheets/oci-artifacts/
const (
	filesConfigType  = "application/vnd.cncf.flux.config.v1+json"
	filesContentType = "application/vnd.cncf.flux.content.v1.tar+gzip"
)

// PushFiles serves a tar.gz of files next to the charts, as `flux push artifact` packs it.
func (r *Registry) PushFiles(ctx context.Context, name, tag string, content []byte) error {
	a := &artifact{Config: []byte("{}"), Content: content}
	var err error
	a.Manifest, err = json.Marshal(manifest{
		SchemaVersion: 2,
		MediaType:     manifestType,
		Config:        describe(filesConfigType, a.Config),
		Layers:        []descriptor{describe(filesContentType, content)},
	})
	if err != nil {
		return fmt.Errorf("encode the manifest of %s:%s: %w", name, tag, err)
	}
	if err := push(ctx, r.store, namespace+"/"+name, tag, a); err != nil {
		return fmt.Errorf("serve %s:%s: %w", name, tag, err)
	}
	return nil
}
