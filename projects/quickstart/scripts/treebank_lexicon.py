"""Lexicon of the quickstart treebank: plain tables, written for this project (CC0).

Nouns are grouped by meaning, because the verb tables select their arguments by these
groups; that is what keeps the generated sentences plausible.  ``~`` marks a mass noun.
"""

from __future__ import annotations

# group -> nouns.  Every noun belongs to exactly one group.
NOUNS: dict[str, str] = {
    "role": "teacher doctor nurse baker farmer student singer painter driver neighbor gardener"
    " waiter lawyer writer sailor pilot child woman man boy girl cook judge mayor guest visitor"
    " scientist librarian tailor carpenter engineer actor clerk soldier manager tourist shepherd"
    " dentist plumber reporter",
    "kin": "brother sister uncle aunt cousin grandmother grandfather friend mother father son"
    " daughter",
    "animal": "dog cat horse cow goat sheep fox rabbit duck owl mouse donkey hen goose crow"
    " kitten puppy turtle squirrel swan",
    "dish": "~soup ~bread cake apple pear ~cheese sandwich pie potato egg ~salad pancake cookie"
    " ~rice ~fish omelet carrot ~honey",
    "drink": "~tea ~coffee ~milk ~juice ~water ~lemonade",
    "text": "book letter poem novel report story newspaper magazine note article diary essay"
    " postcard",
    "paper": "recipe ticket contract form bill",
    "art": "picture painting photo drawing map statue",
    "show": "film song play",
    "tool": "hammer brush rope ladder needle shovel knife spoon fork pen pencil axe broom",
    "gadget": "umbrella telescope camera lamp clock radio phone computer key",
    "container": "box bag basket drawer cup bottle jar suitcase bucket",
    "furniture": "table chair bench sofa desk shelf bed",
    "clothing": "coat hat shirt scarf dress jacket sweater boot glove shoe",
    "vehicle": "car bus train boat bicycle truck ship tram van",
    "room": "kitchen library museum school office hotel barn theater hospital castle cellar"
    " bakery cafe church restaurant",
    "area": "garden park forest city village valley yard field square",
    "spot": "station market airport harbor",
    "surface": "hill roof beach bridge island terrace",
    "water": "river lake sea pond",
    "building": "house fence wall tower cabin",
    "opening": "door window gate",
    "event": "meeting concert wedding party lecture race festival exam game trip",
    "meal": "~breakfast ~lunch ~dinner",
    "weather": "storm ~rain ~wind ~snow flood",
    "idea": "plan problem question answer idea decision mistake rule secret",
    "claim": "rumor promise warning hope",
    "plant": "tree rose flower tomato bush",
    "part": "lid handle engine cover",
    "topping": "mushroom onion bean",
    "trait": "beard mustache",
    "material": "~wood ~stone ~glass ~silver ~leather",
    "person_group": "team crowd class band committee",
}

# Broader selections used by the verb tables; "person" also admits names and pronouns.
GROUPS: dict[str, str] = {
    "person": "role kin",
    "food": "dish drink",
    "place": "room area spot surface",
    "thing": "tool gadget container clothing art",
    "living": "role kin animal",
}

PLURALS = {
    "child": "children", "woman": "women", "man": "men", "sheep": "sheep", "mouse": "mice",
    "goose": "geese", "knife": "knives", "shelf": "shelves", "potato": "potatoes",
    "tomato": "tomatoes", "scarf": "scarves",
}  # fmt: skip

GENDER = {
    "woman": "f", "girl": "f", "man": "m", "boy": "m", "brother": "m", "sister": "f",
    "uncle": "m", "aunt": "f", "grandmother": "f", "grandfather": "m", "mother": "f",
    "father": "m", "son": "m", "daughter": "f",
}  # fmt: skip

FEMALE = [
    "Anna",
    "Maria",
    "Nina",
    "Clara",
    "Julia",
    "Emma",
    "Sofia",
    "Laura",
    "Greta",
    "Helen",
    "Alice",
    "Olga",
    "Ruth",
    "Eva",
]
MALE = [
    "Tom",
    "Peter",
    "David",
    "Oscar",
    "Felix",
    "Paul",
    "Simon",
    "Martin",
    "Leo",
    "Hugo",
    "Victor",
    "Adam",
    "Karl",
    "Ben",
]
SURNAMES = [
    "Keller",
    "Moreno",
    "Novak",
    "Larsen",
    "Fischer",
    "Rossi",
    "Tanaka",
    "Okafor",
    "Silva",
    "Lindqvist",
    "Horvat",
]
CITIES = [
    "Paris",
    "Berlin",
    "Lisbon",
    "Oslo",
    "Madrid",
    "Vienna",
    "Dublin",
    "Prague",
    "Rome",
    "Geneva",
    "Athens",
    "Riga",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

# group (or @noun, which takes precedence) -> adjectives that fit it
ADJECTIVES: dict[str, str] = {
    "role": "young old kind famous tall friendly clever shy careful honest new patient",
    "@brother": "younger older",
    "@sister": "younger older",
    "@cousin": "younger older",
    "@friend": "old",
    "animal": "small brown hungry old gray lazy wild clever noisy white",
    "dish": "fresh warm delicious",
    "drink": "cold fresh",
    "text": "long short new interesting old famous funny strange",
    "paper": "new old simple",
    "art": "beautiful old small famous colorful strange",
    "show": "new famous sad funny long",
    "tool": "old new small useful",
    "gadget": "old new expensive broken small",
    "container": "heavy empty small large wooden",
    "furniture": "old wooden large heavy",
    "clothing": "red blue warm new old expensive gray",
    "vehicle": "old red new fast empty slow",
    "room": "old small large quiet new",
    "area": "quiet large old beautiful small",
    "spot": "busy old crowded new",
    "@bridge": "narrow old long",
    "@hill": "steep high",
    "@beach": "quiet long",
    "@island": "small quiet",
    "@roof": "old flat",
    "@knife": "sharp",
    "@axe": "sharp heavy",
    "@sofa": "comfortable old",
    "@chair": "comfortable old wooden",
    "@bed": "comfortable large",
    "water": "deep quiet cold wide",
    "building": "old high stone white new",
    "opening": "green heavy old narrow",
    "event": "long important boring annual short",
    "meal": "early late quick",
    "weather": "sudden heavy terrible",
    "idea": "difficult simple important strange serious good",
    "claim": "strange old",
    "plant": "tall old small beautiful young",
    "part": "broken new rusty heavy",
    "topping": "fresh",
    "trait": "long gray",
    "material": "dark old",
    "person_group": "new large local",
}

COMPARATIVES = {
    "tall": "taller", "old": "older", "young": "younger", "small": "smaller", "large": "larger",
    "fast": "faster", "cold": "colder", "long": "longer", "short": "shorter", "warm": "warmer",
    "heavy": "heavier", "kind": "kinder", "new": "newer", "quiet": "quieter", "high": "higher",
    "narrow": "narrower", "deep": "deeper", "funny": "funnier", "good": "better",
    "busy": "busier", "clever": "cleverer",
}  # fmt: skip

SUPERLATIVES = {
    "tall": "tallest", "old": "oldest", "small": "smallest", "large": "largest",
    "fast": "fastest", "long": "longest", "short": "shortest", "heavy": "heaviest",
    "young": "youngest", "funny": "funniest", "kind": "kindest", "new": "newest",
}  # fmt: skip

# group -> predicates after "be" (beyond the attributive adjectives above)
PREDICATES: dict[str, str] = {
    "person": "tired happy hungry angry busy ready late ill sad nervous proud polite",
    "animal": "hungry asleep thirsty tired quiet lost",
    "dish": "cold delicious ready fresh warm",
    "drink": "cold hot ready sweet",
    "text": "interesting boring long short difficult funny",
    "vehicle": "late empty slow full fast",
    "room": "closed open empty quiet full crowded",
    "area": "quiet empty beautiful peaceful",
    "opening": "open closed",
    "event": "boring important long wonderful",
    "clothing": "wet dry warm expensive dirty",
    "idea": "clear important simple difficult",
    "container": "empty full heavy",
    "gadget": "broken expensive useful",
    "water": "deep cold calm",
}

# noun group (or @noun) -> "preposition:selection" pairs for modifiers INSIDE the noun phrase.
NOUN_MODIFIERS: dict[str, str] = {
    "@man": "with:trait from:CITY",
    "@sailor": "with:trait from:@island",
    "@farmer": "with:trait from:@valley",
    "role": "with:@umbrella with:@dog with:@suitcase from:CITY from:@village",
    "text": "about:animal about:water about:CITY about:weather",
    "@recipe": "for:dish",
    "@ticket": "for:event for:@train",
    "@picture": "of:animal of:water of:building",
    "@painting": "of:animal of:water of:@castle",
    "@photo": "of:animal of:kin of:CITY",
    "@drawing": "of:animal of:@tower of:@ship",
    "@map": "of:CITY of:area of:@island",
    "@key": "to:@house to:@cellar to:@office to:@gate",
    "@box": "with:part",
    "@basket": "of:@apple of:@pear of:@egg",
    "@bag": "of:@potato of:@carrot of:@apple",
    "@cup": "of:@tea of:@coffee of:@milk",
    "@bottle": "of:@water of:@juice of:@milk",
    "@jar": "of:@honey",
    "@roof": "of:@house of:@barn of:@tower",
    "@door": "of:@cabin of:room",
    "@window": "of:room of:vehicle",
    "@soup": "with:topping",
    "@salad": "with:topping",
    "@omelet": "with:topping with:@cheese",
    "@pie": "with:topping",
    "@house": "near:water with:opening",
    "@cabin": "near:water",
    "@suitcase": "with:part",
    "@lecture": "about:animal about:weather about:CITY",
    "@film": "about:animal about:kin about:CITY",
    "@song": "about:water about:kin",
    "@question": "about:event",
    "@train": "to:CITY from:CITY",
    "@trip": "to:CITY to:@island",
}

COMPOUNDS: dict[str, str] = {
    "teacher": "music history science", "driver": "bus taxi truck", "door": "kitchen cellar",
    "table": "kitchen garden", "cake": "chocolate apple lemon", "soup": "tomato onion potato",
    "station": "train bus police", "window": "kitchen shop", "exam": "history music",
    "pie": "apple cherry", "lamp": "desk street", "book": "history travel", "player": "football",
    "juice": "apple orange", "manager": "bank hotel", "chair": "garden", "bridge": "stone",
    "wall": "garden stone", "concert": "piano summer", "student": "law music",
}  # fmt: skip

# lemma [past [participle]]; anything regular is left out
IRREGULAR_VERBS = """
eat ate eaten;drink drank drunk;read read read;write wrote written;draw drew drawn;sell sold sold
buy bought bought;drive drove driven;build built built;wear wore worn;sew sewed sewn;feed fed fed
find found found;lose lost lost;see saw seen;hide hid hidden;steal stole stolen;meet met met
bring brought brought;catch caught caught;hear heard heard;know knew known;leave left left
understand understood understood;forget forgot forgotten;cut cut cut;sleep slept slept
sing sang sung;swim swam swum;run ran run;fall fell fallen;sit sat sat;stand stood stood
go went gone;come came come;think thought thought;pay paid paid;put put put;take took taken
throw threw thrown;set set set;give gave given;send sent sent;show showed shown;lend lent lent
tell told told;teach taught taught;say said said;begin began begun;keep kept kept;let let let
make made made;feel felt felt;become became become;grow grew grown;break broke broken
wake woke woken;speak spoke spoken;shine shone shone;ride rode ridden;fly flew flown
dig dug dug;win won won;spread spread spread;stop stopped stopped;plan planned planned
chat chatted chatted;beg begged begged;admit admitted admitted;get got gotten;hold held held
be was been;have had had;do did done;spend spent spent;nod nodded nodded
"""

# Final consonant doubles before -ing.
DOUBLING = "cut swim run sit put set begin let dig win stop plan chat beg admit get forget nod"

MANNER: dict[str, str] = {
    "quiet": "quietly",
    "care": "carefully slowly quickly quietly",
    "sound": "loudly quietly softly",
    "move": "slowly quickly quietly",
    "deep": "peacefully deeply soundly",
    "warm": "warmly politely",
    "happy": "happily loudly cheerfully",
    "sudden": "suddenly",
    "hard": "badly completely",
    "late": "late early safely",
    "-": "",
}

# verb | subjects | objects | manner | adjuncts as "preposition:selection"
TRANSITIVE = """
eat | @dog @cat @mouse @goat | dish | move | in:@kitchen in:@yard
eat | person | dish | move | in:@kitchen in:@garden with:@spoon with:@fork
drink | person | drink | move | in:@kitchen in:@cafe
cook | person | @soup @rice @fish @potato @egg | care | in:@kitchen for:person
bake | person | @bread @cake @pie @cookie | care | in:@kitchen for:person
order | person | dish drink | - | at:@restaurant for:kin
read | person | text | care | in:@garden in:@library on:@train
write | person | text | care | with:@pen with:@pencil in:@kitchen
translate | @writer @student @librarian | text | care | -
paint | @painter @child kin | @picture @fence @wall @door @gate | care | with:@brush
draw | @painter @child | @picture @map @drawing | care | with:@pencil
admire | person | art plant building | - | -
open | person | opening @box @drawer @suitcase | care | with:@key with:@knife
lock | person | @door @gate @drawer @suitcase | care | with:@key
repair | person | vehicle gadget @roof @fence | care | with:@hammer in:@barn
wash | person | vehicle clothing @window | care | in:@yard in:water
build | person | @house @tower @cabin @boat @bridge | care | near:water on:@hill
sell | person | vehicle furniture clothing art | - | at:@market in:CITY
buy | person | vehicle furniture clothing text dish | - | at:@market in:CITY for:kin
wear | person | clothing | - | at:@wedding at:@concert at:@party
sew | @tailor kin @woman | @dress @shirt @coat | care | with:@needle
carry | person | container furniture | care | to:room through:room
lift | person | container furniture | care | with:@rope
push | person | @car @table @desk @bicycle | move | up:@hill to:@station
find | person | thing | - | in:area under:furniture
lose | person | gadget clothing | - | at:spot in:@park on:@train
hide | person | thing | care | under:@bed behind:furniture in:@cellar
steal | @fox @crow @dog @cat | @egg @fish @sandwich @pie | move | from:room
steal | @man @woman @boy | thing | - | from:room
chase | @cat @dog @fox | @mouse @rabbit @squirrel @duck @hen @crow | - | across:@field through:area
chase | @boy @girl @farmer | @dog @goat @sheep @horse @hen | - | across:@field through:area
feed | person | animal | care | in:@yard in:@barn
watch | person | animal vehicle | quiet | with:@telescope from:@roof from:@hill
see | person | animal person | - | in:area from:@tower
see | person | @ship @boat @owl @swan | - | with:@telescope
photograph | @reporter @tourist kin | animal building art | care | with:@camera
help | person | person | - | in:@kitchen in:@garden
meet | person | person | - | at:spot in:CITY
visit | person | kin role | - | in:CITY in:@hospital
visit | person | room area | - | -
thank | person | person | warm | after:event
greet | person | person | warm | at:@station
invite | person | person | warm | to:event
call | person | person | - | from:@station from:CITY
follow | person animal | person animal | quiet | through:area across:surface
attend | person | @meeting @concert @wedding @party @lecture @festival | - | -
enjoy | person | show event meal | - | -
cancel | @mayor @manager @teacher | event | sudden | -
organize | person | event | care | for:kin in:@village
solve | person | @problem | move | -
discuss | person | idea event | quiet | with:kin with:role over:meal
explain | person | idea | care | to:person
plant | person | plant | care | in:@garden near:building
water | person | plant | care | in:@garden
cut | person | @bread @cake @cheese @rope | care | with:@knife
surprise | text event idea | person | - | -
annoy | event idea @crow @donkey @goose | person | - | -
delight | show art | person | - | -
damage | weather | building vehicle plant @bridge | hard | in:area
destroy | weather | building @bridge plant | - | in:area
cover | @snow | @field @roof @village @garden | - | -
clean | person | room furniture @window | care | with:@brush with:@broom
move | person | furniture container | care | to:room
ride | person | @horse @bicycle @donkey | - | to:spot through:area
drive | person | @car @truck @van @bus | care | to:CITY across:@bridge
publish | @writer @scientist | text | - | in:CITY
answer | person | @question @letter | care | -
hear | person | @owl @crow @song @fox @train | - | from:@terrace
"""

INTRANSITIVE = """
sleep | person | deep | on:@sofa in:@hotel under:@tree
sleep | animal | deep | in:@barn under:@tree in:@yard
laugh | person | happy | in:@kitchen at:@party
sing | person | sound | in:@church at:@concert
arrive | person vehicle | late | at:@station at:@airport in:CITY
leave | person vehicle | late | -
wait | person | quiet | at:spot in:@kitchen near:opening
cry | @child @boy @girl | sound | in:@kitchen
smile | person | warm | -
swim | person @duck @swan | move | in:water across:water
dance | person | happy | at:@wedding at:@party in:@square
work | person | care | in:room at:@airport in:@field
run | person animal | move | through:area across:@field to:@gate
bark | @dog @puppy | sound | in:@yard behind:@house
fall | @tree plant @shelf | sudden | -
disappear | person animal | sudden | in:@forest behind:@hill
travel | person | - | to:CITY by:VEHICLE
walk | person | move | to:spot through:area along:water across:@bridge
return | person | late | to:area from:CITY
go | person | - | to:spot to:room
jump | @cat @dog @fox @horse @goat @squirrel | - | over:@fence over:@wall
hide | animal @child | quiet | under:furniture behind:building
sit | person | quiet | on:@bench on:@chair on:@sofa at:@table in:@garden
chat | role | happy | in:@cafe at:@market after:@lecture
shine | @lamp | - | in:@window
fly | @owl @crow @goose @duck | move | over:water over:building
nod | person | warm | -
"""

# The verb selects the preposition; the same entries feed preposition stranding.
PREPOSITIONAL = """
look | at | person | art animal vehicle clothing
wait | for | person | person @bus @train
listen | to | person | @song @radio @lecture person
talk | about | person | event idea show
talk | to | person | person
live | in | person | area CITY @cabin
sit | on | person | @bench @chair @sofa
laugh | at | person | idea show
come | from | role | CITY area
dream | about | person | event kin CITY
pay | for | person | food @ticket clothing
depend | on | event | weather @mayor
belong | to | vehicle thing | person
look | after | person | animal kin plant
ask | for | person | food @ticket
complain | about | person | weather event @bill
look | for | person | thing animal
work | for | person | @mayor @lawyer @scientist
think | about | person | idea event kin
"""

# verb particle | subjects | objects ("-" means intransitive)
PARTICLE = """
pick up | person | container clothing @key @phone
put on | person | clothing
take off | person | @coat @hat @boot @glove @scarf
turn off | person | @lamp @radio @computer
turn on | person | @lamp @radio @computer
throw away | person | @newspaper @bottle @box @shoe
bring back | person | tool text
write down | person | @answer @recipe @question
call off | @mayor @manager @teacher | event
set up | person | @camera @telescope @table
give away | person | clothing furniture
fill in | person | @form
hand in | @student | @essay @report
cut down | @gardener @farmer | @tree @bush
wake up | person | -
sit down | person | -
stand up | person | -
come back | person | -
break down | @bus @car @truck @train | -
run away | @dog @horse @rabbit @boy @donkey | -
give up | person | -
grow up | @boy @girl @puppy | -
"""

# verb | objects; the subject and the receiver are persons
DITRANSITIVE = """
give | text clothing dish tool gadget
send | @letter @postcard @photo @book @note
show | art text @garden
lend | tool @car @bicycle @van @book @umbrella @coat
offer | drink dish
tell | @story @secret
teach | @song
bring | drink dish @newspaper
hand | tool @letter @key @cup
sell | @car @bicycle @boat art furniture
read | @story @poem @letter
"""

SAY_VERBS = [
    "say",
    "think",
    "know",
    "believe",
    "hope",
    "claim",
    "notice",
    "hear",
    "explain",
    "admit",
    "remember",
    "forget",
]
BRIDGE_VERBS = ["say", "think", "believe", "hope", "claim"]
ASK_VERBS = ["wonder", "ask", "know"]
TO_VERBS = [
    "want",
    "try",
    "hope",
    "plan",
    "decide",
    "promise",
    "refuse",
    "forget",
    "begin",
    "learn",
    "need",
    "agree",
    "manage",
]
ING_VERBS = ["enjoy", "stop", "start", "avoid", "finish", "keep"]
CONTROL_VERBS = ["ask", "persuade", "help", "teach", "invite", "allow", "tell", "encourage", "beg"]
STATIVE = [
    "know",
    "believe",
    "hope",
    "want",
    "need",
    "wear",
    "see",
    "hear",
    "belong",
    "live",
    "depend",
    "understand",
    "think",
]

# Not done on purpose: no commands, wishes or plans with these.
UNINTENDED = [
    "lose",
    "grow",
    "wake",
    "fall",
    "disappear",
    "come",
    "belong",
    "depend",
    "know",
    "see",
    "hear",
    "dream",
    "meet",
    "find",
    "break",
    "shine",
    "annoy",
    "understand",
    "steal",
    "enjoy",
    "need",
    "complain",
]
PURPOSES = [
    "buy",
    "sell",
    "repair",
    "feed",
    "meet",
    "help",
    "visit",
    "attend",
    "discuss",
    "photograph",
]
COUNTABLE_KIN = ["brother", "sister", "cousin", "friend", "son", "daughter", "uncle", "aunt"]

COLORS = ["green", "white", "blue", "yellow"]
OBJECT_PREDICATES = ["happy", "angry", "nervous", "sad", "tired"]

SUBORDINATORS = ["because", "although", "while", "before", "after"]
NUMBERS = [
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "twelve",
    "twenty",
]
