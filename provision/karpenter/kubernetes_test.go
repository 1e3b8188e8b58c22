package karpenter

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckKubernetes(t *testing.T) {
	cases := map[string]struct {
		kubernetes, karpenter string
		says                  string
	}{
		"in the middle":              {"1.33", "1.8.6", ""},
		"the newest":                 {"1.36", "1.14.1", ""},
		"the oldest":                 {"1.26", "1.14.1", ""},
		"as EKS writes it":           {"v1.34.2-eks-99d6cc0", "1.9.0", ""},
		"as a minor number with +":   {"1.35+", "1.9.0", ""},
		"one past the newest":        {"v1.34.1", "1.6.3", "karpenter 1.6.3 knows kubernetes 1.26 to 1.33, and the cluster's is 1.34: set version 1.6.6 or later in plumbline.yaml"},
		"a backport":                 {"1.34", "1.6.6", ""},
		"a minor without it":         {"1.34", "1.7.0", "karpenter 1.7.0 knows kubernetes 1.26 to 1.33, and the cluster's is 1.34: set version 1.7.4 or later in plumbline.yaml"},
		"far past the newest":        {"1.36", "1.0.8", "karpenter 1.0.8 knows kubernetes 1.25 to 1.31, and the cluster's is 1.36: set version 1.13.0 or later in plumbline.yaml"},
		"newer than all: untested":   {"1.37", "1.14.1", ""},
		"too old":                    {"1.25", "1.14.1", "karpenter 1.14.1 knows kubernetes 1.26 to 1.36, and the cluster's is 1.25: upgrade kubernetes to 1.26 first"},
		"a patch that came too late": {"1.31", "1.0.4", "karpenter 1.0.4 knows kubernetes 1.25 to 1.30, and the cluster's is 1.31: set version 1.0.5 or later in plumbline.yaml"},
		"newer than the tables":      {"1.40", "1.15.0", ""},
		"older than the tables":      {"1.40", "0.20.0", ""},
		"a patch of the newest":      {"1.37", "1.14.9", ""},
		"no version of Kubernetes":   {"main", "1.14.1", `version of kubernetes is "main", and should begin with 1. and a minor number`},
		"no version of Karpenter":    {"1.33", "1.14", `version of karpenter is "1.14": give one full version such as 1.14.1, without a range`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := CheckKubernetes(c.kubernetes, c.karpenter)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(c.says, said); diff != "" {
				t.Error(diff)
			}
		})
	}
	var refused *KubernetesError
	if err := CheckKubernetes("1.34", "1.6.3"); !errors.As(err, &refused) || refused.Use != "1.6.6" || refused.Minor != 34 {
		t.Errorf("%#v", err)
	}
}
