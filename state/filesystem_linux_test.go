package state

import "testing"

func TestUnsupportedFilesystems(t *testing.T) {
	for kind, refused := range map[int64]bool{
		0x6969: true, 0x517B: true, 0xFF534D42: true, 0xFE534D42: true, 0x01021997: true, -0xACB2BE: true,
		0xEF53: false, 0x01021994: false, 0x58465342: false, 0x9123683E: false,
	} {
		err := refuseFilesystem("/dir", filesystemName(kind))
		if !refused {
			check(t, err)
			continue
		}
		wantCode(t, err, "state_unsupported_filesystem")
	}
}
