package kustomize

import (
	"encoding/json"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

// What leaves an object out is seen at the end of a build, and not in its text: an annotation
// may come there by a map that is copied, or a list of fields. So nothing is left out: the last
// transformer gives LocalAnnotation another name, and the objects that have it are marked.

const (
	// heldAnnotation has the value of LocalAnnotation until an object is read.
	heldAnnotation = "plumbline.dev/local-config"
	holdName       = "plumbline-hold-local-config"
	// transformations lists the transformers that an object went through, where that is
	// asked for: api/internal/utils/annotations.go.
	transformations = "alpha.config.kubernetes.io/transformations"
)

// prepared is the text of a kustomization that has kustomize say for each object where it was
// written, and leave none out. Those with transformers of their own are refused.
func prepared(kustomization *types.Kustomization) ([]byte, error) {
	asking := *kustomization
	if !slices.Contains(asking.BuildMetadata, types.OriginAnnotations) {
		asking.BuildMetadata = append(slices.Clone(asking.BuildMetadata), types.OriginAnnotations)
	}
	hold, err := json.Marshal(map[string]any{
		"apiVersion": "builtin", "kind": "PatchTransformer", "metadata": map[string]any{"name": holdName},
		"target": map[string]any{"annotationSelector": LocalAnnotation},
		"patch":  `[{"op": "move", "from": "` + pointer(LocalAnnotation) + `", "path": "` + pointer(heldAnnotation) + `"}]`,
	})
	if err != nil {
		return nil, err
	}
	asking.Transformers = []string{string(hold)}
	return json.Marshal(asking)
}

// pointer is the JSON pointer to an annotation.
func pointer(annotation string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(annotation, "/", "~1")
}

// release takes the traces of prepared out of an object's annotations, and says whether
// kustomize would have left the object out.
func release(annotations map[string]any) (local bool) {
	if list, ok := annotations[transformations].(string); ok {
		if last := strings.LastIndex("\n"+list, "\n- "); last >= 0 && strings.Contains(list[last:], holdName) {
			annotations[transformations] = list[:last]
		}
		if annotations[transformations] == "" {
			delete(annotations, transformations)
		}
	}
	held, ok := annotations[heldAnnotation]
	if !ok {
		return false
	}
	delete(annotations, heldAnnotation)
	annotations[LocalAnnotation] = held
	return held != "false"
}
