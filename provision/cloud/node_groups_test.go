package cloud

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// groups answers what `plumbline init` queries of EKS, in JSON, and of EC2, in XML.
type groups struct{ refused string }

func (g groups) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if g.refused != "" && strings.HasSuffix(r.URL.Path, g.refused) {
			w.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message":"User: x is not authorized to perform: eks:DescribeNodegroup"}`)
			return
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/node-groups"):
			fmt.Fprint(w, `{"nodegroups":["web","api","gone"]}`)
		case strings.HasSuffix(r.URL.Path, "/web"):
			fmt.Fprint(w, `{"nodegroup":{"nodegroupName":"web","amiType":"AL2023_x86_64_STANDARD","capacityType":"SPOT","instanceTypes":["m5.large"],"diskSize":50,
				"labels":{"team":"shop"},"taints":[{"key":"web","value":"yes","effect":"NO_SCHEDULE"}],"nodeRole":"arn:aws:iam::1:role/nodes","subnets":["subnet-1"],
				"scalingConfig":{"minSize":1,"maxSize":4,"desiredSize":2},"remoteAccess":{"ec2SshKey":"ada"},"resources":{"remoteAccessSecurityGroup":"sg-9"},"nodeRepairConfig":{"enabled":true}}}`)
		case strings.HasSuffix(r.URL.Path, "/api"):
			fmt.Fprint(w, `{"nodegroup":{"nodegroupName":"api","amiType":"CUSTOM","capacityType":"ON_DEMAND","launchTemplate":{"id":"lt-1","version":"3"}}}`)
		default:
			w.Header().Set("X-Amzn-ErrorType", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"not found"}`)
		}
		return
	}
	form, ok := formOf(w, r)
	if !ok {
		return
	}
	switch form.Get("Action") {
	case "DescribeLaunchTemplateVersions":
		if form.Get("LaunchTemplateId") != "lt-1" || form.Get("LaunchTemplateVersion.1") != "3" {
			http.Error(w, "another version", http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `<R><launchTemplateVersionSet><item><launchTemplateId>lt-1</launchTemplateId><versionNumber>3</versionNumber><launchTemplateData>
			<imageId>ami-1</imageId><instanceType>m6g.large</instanceType><userData>%s</userData><monitoring><enabled>true</enabled></monitoring>
			<securityGroupIdSet><item>sg-1</item></securityGroupIdSet>
			<blockDeviceMappingSet><item><deviceName>/dev/xvda</deviceName><ebs><volumeSize>80</volumeSize><volumeType>gp3</volumeType></ebs></item></blockDeviceMappingSet>
			<metadataOptions><httpTokens>required</httpTokens><httpPutResponseHopLimit>2</httpPutResponseHopLimit></metadataOptions>
			<tagSpecificationSet><item><resourceType>instance</resourceType><tagSet><item><key>Name</key><value>api</value></item></tagSet></item></tagSpecificationSet>
			<cpuOptions><coreCount>2</coreCount></cpuOptions></launchTemplateData></item></launchTemplateVersionSet></R>`,
			base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\n")))
	case "DescribeInstanceTypes":
		fmt.Fprint(w, `<R><instanceTypeSet><item><instanceType>m6g.large</instanceType><vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo>
			<memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo><processorInfo><supportedArchitectures><item>arm64</item></supportedArchitectures></processorInfo></item></instanceTypeSet></R>`)
	}
}

// TestNodeGroups checks what is read of node groups, their launch templates and instance types.
func TestNodeGroups(t *testing.T) {
	client := connect(t, groups{}, Options{Attempts: 1})
	got, err := client.NodeGroups(t.Context(), "prod")
	want := []NodeGroup{
		{
			Name: "api", AMIType: "CUSTOM", CapacityType: "ON_DEMAND", InstanceTypes: []string{"m6g.large"},
			Template: &LaunchTemplate{
				ID: "lt-1", Version: "3", ImageID: "ami-1", InstanceType: "m6g.large", UserData: "#!/bin/bash\n", Monitoring: true, SecurityGroups: []string{"sg-1"},
				Disks: []Disk{{Device: "/dev/xvda", Type: "gp3", GiB: 80}}, Metadata: &Metadata{Tokens: "required", HopLimit: 2},
				InstanceTags: map[string]string{"Name": "api"}, Other: []string{"CpuOptions"},
			},
		},
		{
			Name: "web", AMIType: "AL2023_x86_64_STANDARD", CapacityType: "SPOT", InstanceTypes: []string{"m5.large"}, DiskGiB: 50,
			Labels: map[string]string{"team": "shop"}, Taints: []NodeTaint{{"web", "yes", "NoSchedule"}}, RoleARN: "arn:aws:iam::1:role/nodes",
			Subnets: []string{"subnet-1"}, Min: 1, Max: 4, Desired: 2, SSHKey: "ada", RemoteGroup: "sg-9", Repair: true,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got), error %v:\n%s", err, diff)
	}
	sizes, err := client.Sizes(t.Context(), []string{"m6g.large", "m6g.large"})
	if diff := cmp.Diff(map[string]Size{"m6g.large": {CPU: 2, MiB: 8192, Archs: []string{"arm64"}}}, sizes); diff != "" || err != nil {
		t.Errorf("sizes (-want +got), error %v:\n%s", err, diff)
	}
	if _, err := connect(t, groups{refused: "/api"}, Options{Attempts: 1}).NodeGroups(t.Context(), "prod"); err == nil || !strings.HasPrefix(err.Error(), "AWS denies eks:DescribeNodegroup") {
		t.Errorf("denied: %v", err)
	}
}
