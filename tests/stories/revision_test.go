package stories_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// breakRevision is `karpenter revision RELEASE STATUS|cut-off`: it leaves the last revision of a release as if helm had
// been killed.
func (s *story) breakRevision(args []string) error {
	if len(args) != 2 {
		return errKarpenterUsage
	}
	secrets := s.c.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(sandbox.ChartNamespace)
	list, err := secrets.List(s.ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + args[0]})
	if err != nil || len(list.Items) == 0 {
		return errors.Join(err, fmt.Errorf("the Helm release %s has %d revisions", args[0], len(list.Items)))
	}
	secret := slices.MaxFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	release, _, err := unstructured.NestedString(secret.Object, "data", "release")
	if err != nil {
		return err
	}
	if args[1] == "cut-off" {
		release = release[:len(release)/8*4]
	} else {
		if release, err = withStatus(release, args[1]); err != nil {
			return fmt.Errorf("rewrite %s: %w", args[0], err)
		}
		labels := secret.GetLabels()
		labels["status"] = args[1]
		secret.SetLabels(labels)
	}
	if err := unstructured.SetNestedField(secret.Object, release, "data", "release"); err != nil {
		return err
	}
	_, err = secrets.Update(s.ctx, &secret, metav1.UpdateOptions{})
	return err
}

// revisionOf returns a Secret's revision; 0 if it has none.
func revisionOf(secret unstructured.Unstructured) int {
	number, err := strconv.Atoi(secret.GetLabels()["version"])
	if err != nil {
		return 0
	}
	return number
}

// withStatus rewrites a release as Helm stores it: JSON, gzipped, and in base64 once by Helm and once by the API
// server.
func withStatus(stored, status string) (string, error) {
	outer, err := base64.StdEncoding.DecodeString(stored)
	if err != nil {
		return "", err
	}
	inner, err := base64.StdEncoding.DecodeString(string(outer))
	if err != nil {
		return "", err
	}
	zipped, err := gzip.NewReader(bytes.NewReader(inner))
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(zipped)
	if err != nil {
		return "", err
	}
	var release map[string]any
	if err := json.Unmarshal(raw, &release); err != nil {
		return "", err
	}
	info, ok := release["info"].(map[string]any)
	if !ok {
		return "", errors.New("it has no info")
	}
	info["status"] = status
	if raw, err = json.Marshal(release); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(raw))), nil
}
