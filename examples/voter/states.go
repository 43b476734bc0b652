package voter

import (
	"strconv"
	"strings"
)

// Nowhere is the state of a phone with an unknown area code.
const Nowhere = "XX"

// StateOf returns the state of a phone's area code, as two letters.
func StateOf(phone int64) string {
	if s := stateOfCode[phone/10_000_000%1000]; s != "" {
		return s
	}
	return Nowhere
}

// Phone turns any number into a phone number: an area code of some state, and seven digits. Different numbers
// below Phones give different phone numbers.
func Phone(n uint64) int64 {
	n %= Phones
	return codes[n%uint64(len(codes))]*10_000_000 + int64(n/uint64(len(codes)))
}

// Phones is how many phone numbers Phone can make, rounded down.
const Phones = 2_000_000_000

// stateOfCode and codes are never changed.
var stateOfCode, codes = parseAreas(areas)

func parseAreas(text string) (byCode *[1000]string, codes []int64) {
	byCode = new([1000]string)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		for _, word := range words[min(1, len(words)):] {
			code, err := strconv.Atoi(word)
			if err != nil || code < 200 || code > 999 {
				panic("BUG: area code " + word)
			}
			byCode[code] = words[0]
			codes = append(codes, int64(code))
		}
	}
	return byCode, codes
}

// areas are geographic area codes of the North American Numbering Plan in the United States, without the most
// recent overlays.
const areas = `
AK 907
AL 205 251 256 334
AR 479 501 870
AZ 480 520 602 623 928
CA 209 213 310 323 408 415 510 530 559 562 619 626 650 661 707 714 760 805 818 831 858 909 916 925 949 951
CO 303 719 720 970
CT 203 860
DC 202
DE 302
FL 239 305 321 352 386 407 561 727 754 772 786 813 850 863 904 941 954
GA 229 404 478 678 706 770 912
HI 808
IA 319 515 563 641 712
ID 208
IL 217 224 309 312 618 630 708 773 815 847
IN 219 260 317 574 765 812
KS 316 620 785 913
KY 270 502 606 859
LA 225 318 337 504 985
MA 339 351 413 508 617 774 781 857 978
MD 240 301 410 443
ME 207
MI 231 248 269 313 517 586 616 734 810 906 989
MN 218 320 507 612 651 763 952
MO 314 417 573 636 660 816
MS 228 601 662
MT 406
NC 252 336 704 828 910 919 980
ND 701
NE 308 402
NH 603
NJ 201 551 609 732 848 856 862 908 973
NM 505 575
NV 702 775
NY 212 315 347 516 518 585 607 631 646 716 718 845 914 917
OH 216 234 330 419 440 513 567 614 740 937
OK 405 580 918
OR 503 541 971
PA 215 267 412 484 570 610 717 724 814
RI 401
SC 803 843 864
SD 605
TN 423 615 731 865 901 931
TX 210 214 254 281 325 361 409 432 469 512 682 713 806 817 830 832 903 915 936 940 956 972 979
UT 435 801
VA 276 434 540 571 703 757 804
VT 802
WA 206 253 360 425 509
WI 262 414 608 715 920
WV 304
WY 307
`
