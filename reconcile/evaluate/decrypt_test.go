package evaluate

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// sealedFile was encrypted for the OpenPGP key with which SOPS tests itself.
const sealedFile = "../../internal/sops/testdata/example.yaml"

func fileOf(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// decrypting returns a step with a file of valuesFiles that is encrypted, and with one that is not.
func decrypting(t *testing.T, by *v1alpha1.Decryption, keys map[string][]byte) (s *DesiredStep, hidden *[]string) {
	t.Helper()
	files := fstest.MapFS{
		"fleet/plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: demo, region: eu-west-1}\nversion: 1.15.0\nvaluesFiles: [plain.yaml, sealed.yaml]\nvalues: {replicas: 2}\n")},
		"fleet/plain.yaml":     {Data: []byte("logLevel: debug\n")},
		"fleet/sealed.yaml":    {Data: fileOf(t, sealedFile)},
	}
	snap := render.Snapshot{FS: files}
	k, err := render.ReadKarpenter(snap, "fleet")
	if err != nil {
		t.Fatal(err)
	}
	s = &DesiredStep{Desired: &Desired{Karpenter: k, Files: render.NewFiles(snap)}, Sync: &v1alpha1.NodeSync{}}
	s.Sync.Name, s.Sync.Spec.Path, s.Sync.Spec.Decryption = "fleet", "fleet", by
	if s.FileValues, err = k.ReadValues(s.Files, "fleet"); err != nil {
		t.Fatal(err)
	}
	hidden = &[]string{}
	s.HideValues = func(values []string) { *hidden = append(*hidden, values...) }
	s.HideCredential = func(string) {}
	s.Secret = func(_ context.Context, name string) (*corev1.Secret, error) {
		if keys == nil {
			return nil, errors.New("not found")
		}
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: keys}, nil
	}
	return s, hidden
}

// TestDecryptedValuesAreThoseOfASecret: they are merged in the order of the files, and hidden.
func TestDecryptedValuesAreThoseOfASecret(t *testing.T) {
	by := &v1alpha1.Decryption{Provider: "sops", SecretRef: &v1alpha1.LocalReference{Name: "keys"}}
	s, hidden := decrypting(t, by, map[string][]byte{"sops.asc": fileOf(t, "../../internal/sops/testdata/key.asc")})
	if err := s.MergeValues(t.Context()); err != nil {
		t.Fatal(err)
	}
	merged := s.Values.Merged
	if merged["logLevel"] != "debug" || merged["sops"] != nil {
		t.Errorf("merged %v", merged)
	}
	db := merged["app2"].(map[string]any)["db"]
	if diff := cmp.Diff(map[string]any{"user": "eve", "password": "c4r1b0u"}, db); diff != "" {
		t.Error(diff)
	}
	all := strings.Join(*hidden, "\n")
	if !strings.Contains(all, "c4r1b0u") || strings.Contains(all, "debug") || strings.Contains(all, "remain in clear text") {
		t.Errorf("hidden: %s", all)
	}
	if s.Values.Sealed == "" || strings.Contains(s.Values.Sealed, "c4r1b0u") {
		t.Errorf("sealed %q", s.Values.Sealed)
	}
	inGit, err := MergeInGit(s.Karpenter, s.FileValues)
	if err != nil || inGit.Merged["nested_unencrypted"] == nil || inGit.Merged["number"] != nil || inGit.Merged["sops"] != nil {
		t.Errorf("in Git: %v, %v", inGit.Merged, err)
	}
}

// TestNothingIsAppliedWithoutTheKey: each error is Refused and says what to do.
func TestNothingIsAppliedWithoutTheKey(t *testing.T) {
	by := &v1alpha1.Decryption{Provider: "sops", SecretRef: &v1alpha1.LocalReference{Name: "keys"}}
	for name, c := range map[string]struct {
		by   *v1alpha1.Decryption
		keys map[string][]byte
		says string
	}{
		"no decryption": {says: "spec.decryption of the NodeSync is not set"},
		"only KMS":      {by: &v1alpha1.Decryption{Provider: "sops"}, says: "no key decrypts it: it is encrypted for OpenPGP FBC7B9E2A4F9289AC0C1D4843D16CEE4A27381B4"},
		"an empty one":  {by: by, keys: map[string][]byte{"x": []byte("y")}, says: "secret keys, which spec.decryption names, has no key that ends in .agekey or .asc"},
		"a broken key":  {by: by, keys: map[string][]byte{"a.agekey": []byte("swordfish")}, says: "the key a.agekey holds no identity of age"},
	} {
		s, _ := decrypting(t, c.by, c.keys)
		err := s.MergeValues(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "swordfish") || fault.Classify(err).Reason != v1alpha1.ReasonRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, _ := decrypting(t, by, nil)
	if err := s.MergeValues(t.Context()); err == nil || !strings.Contains(err.Error(), "read secret keys, which spec.decryption names") {
		t.Errorf("no Secret: %v", err)
	}
}
