package cloud

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCluster(t *testing.T) {
	client := connect(t, &account{}, Options{Attempts: 1})
	got, err := client.Cluster(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	want := Cluster{
		Name: "demo", ARN: "arn:aws:eks:eu-west-1:111122223333:cluster/demo", Endpoint: "https://demo.example.com",
		Version: "1.36", CertificateAuthority: []byte("PEM"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	var missing *NotFoundError
	if _, err := client.Cluster(t.Context(), "other"); !errors.As(err, &missing) || missing.Where != "eu-west-1 of account 111122223333" {
		t.Errorf("unknown cluster: got %T: %v", err, err)
	}
}

func TestIdentity(t *testing.T) {
	got, err := connect(t, &account{}, Options{}).Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Identity{Account: "111122223333", ARN: "arn:aws:iam::111122223333:role/plumbline"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}
