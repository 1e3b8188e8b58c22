package charts

import (
	"errors"
	"strings"
	"testing"
)

func TestRefIsChecked(t *testing.T) {
	tests := map[string]struct {
		ref   Ref
		valid bool
	}{
		"a registry":        {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14.1"}, true},
		"build metadata":    {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14.1+own.2"}, true},
		"a trailing slash":  {Ref{Repository: "oci://public.ecr.aws/karpenter/", Version: "1.14.1"}, true},
		"a leading v":       {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "v1.14.1"}, false},
		"a range":           {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14.x"}, false},
		"no patch number":   {Ref{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14"}, false},
		"a Helm repository": {Ref{Repository: "https://charts.karpenter.sh", Version: "1.14.1"}, true},
		"on loopback":       {Ref{Repository: "http://127.0.0.1:8080/charts", Version: "1.14.1"}, true},
		"a folder":          {Ref{Repository: "clusters/prod/charts", Version: "1.14.1"}, true},
		"the root":          {Ref{Repository: ".", Version: "1.14.1"}, true},
		"a pin":             {Ref{Repository: "charts", Version: "1.14.1", Digests: Digests{CRD: "sha256:" + strings.Repeat("a", 64)}}, true},
		"plain HTTP":        {Ref{Repository: "http://charts.example.com", Version: "1.14.1"}, false},
		"another scheme":    {Ref{Repository: "git://charts.karpenter.sh", Version: "1.14.1"}, false},
		"a password":        {Ref{Repository: "https://ada:secret@charts.example.com", Version: "1.14.1"}, false},
		"a query":           {Ref{Repository: "https://charts.example.com/?token=x", Version: "1.14.1"}, false},
		"a way out":         {Ref{Repository: "../charts", Version: "1.14.1"}, false},
		"an absolute path":  {Ref{Repository: "/charts", Version: "1.14.1"}, false},
		"half a pin":        {Ref{Repository: "charts", Version: "1.14.1", Digests: Digests{Controller: "sha256:abc"}}, false},
		"another algorithm": {Ref{Repository: "charts", Version: "1.14.1", Digests: Digests{CRD: "sha512:" + strings.Repeat("a", 128)}}, false},
		"no host":           {Ref{Repository: "oci://", Version: "1.14.1"}, false},
		"no repository":     {Ref{Version: "1.14.1"}, false},
		"no version either": {Ref{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.ref.check()
			var invalid *InvalidRefError
			if test.valid != (err == nil) || (err != nil && !errors.As(err, &invalid)) {
				t.Errorf("check() = %v, want valid: %v", err, test.valid)
			}
			if err != nil && strings.Contains(err.Error(), "secret@") {
				t.Errorf("it tells the password: %v", err)
			}
		})
	}
}

func TestPlainHTTPIsForLoopbackAlone(t *testing.T) {
	tests := map[string]struct {
		repository, want string
		plain            bool
	}{
		"public":             {"oci://public.ecr.aws/karpenter", "public.ecr.aws/karpenter/karpenter", false},
		"a port":             {"oci://registry.example.com:5000/a/b/", "registry.example.com:5000/a/b/karpenter", false},
		"IPv4 loopback":      {"oci://127.0.0.1:5000/karpenter", "127.0.0.1:5000/karpenter/karpenter", true},
		"another loopback":   {"oci://127.3.2.1/karpenter", "127.3.2.1/karpenter/karpenter", true},
		"IPv6 loopback":      {"oci://[::1]:5000/karpenter", "[::1]:5000/karpenter/karpenter", true},
		"localhost":          {"oci://localhost:5000/karpenter", "localhost:5000/karpenter/karpenter", true},
		"a private address":  {"oci://10.0.0.1:5000/karpenter", "10.0.0.1:5000/karpenter/karpenter", false},
		"localhost's cousin": {"oci://localhost.example.com/karpenter", "localhost.example.com/karpenter/karpenter", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, plain := Ref{Repository: test.repository}.registry(ControllerChart)
			if got != test.want || plain != test.plain {
				t.Errorf("registry() = %s, plain %v; want %s, plain %v", got, plain, test.want, test.plain)
			}
		})
	}
}
