package charts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetScalars(t *testing.T) {
	const document = "# kept\ncontroller:\n  image: # kept\n    tag: 1.13.0\n    digest: \"sha256:0\"\ntag: other\n"

	cases := map[string]struct {
		scalars map[string]string
		want    string
		wantErr string
	}{
		"only the named path changes": {
			scalars: map[string]string{"controller.image.tag": "1.14.1", "controller.image.digest": "sha256:1"},
			want:    "# kept\ncontroller:\n  image: # kept\n    tag: 1.14.1\n    digest: sha256:1\ntag: other\n",
		},
		"a path that is missing is named": {
			scalars: map[string]string{"controller.image.name": "x"},
			wantErr: `set controller.image.name: there is no "name"`,
		},
		"a mapping is no scalar": {
			scalars: map[string]string{"controller.image": "x"},
			wantErr: "set controller.image: line 4 is no scalar",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := setScalars([]byte(document), tc.scalars)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}
