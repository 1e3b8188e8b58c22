package sandbox

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// callTimeout is for a server in the same process.
const callTimeout = 10 * time.Second

// cloud is what the nodes and their volumes want of EC2. Deleting a volume is
// asked of the simulator as the EBS CSI driver would ask EC2.
type cloud struct {
	*awssim.Simulator
	endpoint, region string
}

func (c cloud) DeleteVolume(volumeID string) error {
	form := url.Values{"Action": {"DeleteVolume"}, "Version": {"2016-11-15"}, "VolumeId": {volumeID}}
	request, err := http.NewRequest(http.MethodPost, c.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("delete volume %s: %w", volumeID, err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/20260101/%s/ec2/aws4_request", driverAccessKey, c.region))
	response, err := (&http.Client{Timeout: callTimeout}).Do(request)
	if err != nil {
		return fmt.Errorf("delete volume %s: %w", volumeID, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		answer, err := io.ReadAll(response.Body)
		return fmt.Errorf("delete volume %s: status %d: %s %v", volumeID, response.StatusCode, answer, err) //nolint:errorlint // the status is the error
	}
	return nil
}
